"""Escapes untrusted text: labels, reasons and file names may be hostile."""

from __future__ import annotations

LONGEST = 500
_PLAIN = set(" ,%=/")  # punctuation without a meaning in Markdown


def visible(text: str) -> str:
    """Make text one printable line: controls, bidi marks and the like become ‹U+202E›."""
    shown = "".join(c if c.isprintable() else f"‹U+{ord(c):04X}›" for c in text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown}…"


def markdown(text: str) -> str:
    """Escape text so that no Markdown renderer sees a tag, link, mention or table in it.

    All but letters, digits, plain punctuation and decimal points become character references.
    """
    before = [" ", *text[:-1]]
    return "".join(
        c if c.isalnum() or c in _PLAIN or (c == "." and b.isdigit()) else f"&#{ord(c)};"
        for b, c in zip(before, text, strict=False)
    )
