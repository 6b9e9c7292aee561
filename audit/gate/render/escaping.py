"""Escapes untrusted text: labels, reasons and file names may be hostile."""

from __future__ import annotations

_PLAIN = set(" ,%=/")  # punctuation without a meaning in Markdown


def markdown(text: str) -> str:
    """Escape text so that no Markdown renderer sees a tag, link, mention or table in it.

    All but letters, digits, plain punctuation and decimal points become character references.
    """
    before = [" ", *text[:-1]]
    return "".join(
        c if c.isalnum() or c in _PLAIN or (c == "." and b.isdigit()) else f"&#{ord(c)};"
        for b, c in zip(before, text, strict=False)
    )
