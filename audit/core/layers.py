"""Which layers are trained, in a plan's words: "all", or "top:N" for the last N blocks."""

from __future__ import annotations

from audit.core.rules import Rule

ALL = "all"


def is_layers(text: str) -> bool:
    """Return whether the text is "all" or "top:N"; a model may still have fewer blocks."""
    return text == ALL or (text.startswith("top:") and text[4:].isdecimal())


def blocks_of(layers: str) -> int:
    """Read N from "top:N"."""
    return int(layers.removeprefix("top:"))


LAYERS = Rule("all or top:N", is_layers)
