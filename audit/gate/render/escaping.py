"""Text of strangers made harmless: labels, reasons and file names may be hostile."""

from __future__ import annotations

LONGEST = 500
_PLAIN = set(" ,%=/")  # of punctuation, all that no Markdown reads


def visible(text: str) -> str:
    """One line in which nothing is hidden: controls, bidi marks and the like become ‹U+202E›."""
    shown = "".join(c if c.isprintable() else f"‹U+{ord(c):04X}›" for c in text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown}…"


def markdown(text: str) -> str:
    """Text that no Markdown renderer reads as anything but text: no tag, link, mention or table.

    What is neither letter, digit nor plain becomes a character reference; a decimal point stays.
    """
    before = [" ", *text[:-1]]
    return "".join(
        c if c.isalnum() or c in _PLAIN or (c == "." and b.isdigit()) else f"&#{ord(c)};"
        for b, c in zip(before, text, strict=False)
    )
