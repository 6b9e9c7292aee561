"""Which layers are trained, in a plan's words: "all", or "top:N", the last N blocks."""

from __future__ import annotations

ALL = "all"


def is_layers(text: str) -> bool:
    """Whether it says which layers; a model may still have fewer blocks."""
    return text == ALL or (text.startswith("top:") and text[4:].isdecimal())


def blocks_of(layers: str) -> int:
    """N of "top:N"."""
    return int(layers.removeprefix("top:"))
