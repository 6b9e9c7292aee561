"""Make text of strangers harmless to whoever reads it: on a terminal, in a CI log, in a report."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

LONGEST = 2000
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = {"Mn", "Me"}
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#(?:\[|vso\[))")  # what a CI reads as a command in a log
_PASSWORD = re.compile(r"(?<=://)[^/\s]+@")  # a token may stand alone, in the user's place


def visible(text: str, longest: int = LONGEST) -> str:
    """Replace hidden characters, such as controls and bidi overrides, by ‹U+202E› and the like.

    So are line breaks, and combining marks after the second in a row. Text beyond `longest`
    characters is cut.
    """
    if text.isascii() and text.isprintable() and len(text) <= longest:
        return text
    pieces = []
    stacked = 0
    for character in text[:longest]:
        category = unicodedata.category(character)
        stacked = stacked + 1 if category in _MARKS else 0
        hidden = category in _HIDDEN or stacked > 2
        pieces.append(code_point(character) if hidden else character)
    if len(text) > longest:
        pieces.append(f" … ({len(text) - longest:,} more characters)")
    return "".join(pieces)


def composed(text: str) -> str:
    """Write a text as readers see it: in Unicode's composed form, without invisible signs."""
    if text.isascii():
        return text
    seen = "".join(sign for sign in text if sign.isascii() or unicodedata.category(sign) != "Cf")
    return unicodedata.normalize("NFC", seen)


def code_point(character: str) -> str:
    """Name a character by its code point, as in ‹U+202E›."""
    return f"‹U+{ord(character):04X}›"


def each_text(tree: Any, change: Callable[[str], str], keys: bool = True) -> Any:
    """Change every string of a JSON-like tree. keys: whether those of objects, too."""
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, dict):
        named = ((change(str(key)) if keys else key, value) for key, value in tree.items())
        return {key: each_text(value, change, keys) for key, value in named}
    if isinstance(tree, list | tuple):
        return [each_text(value, change, keys) for value in tree]
    return tree


def printed(line: str) -> str:
    """Make one line ready to be printed: visible, no command to a CI, no password of an address."""
    shown = visible(without_passwords(line), sys.maxsize)
    return _COMMAND.sub(lambda found: f"{found[1] or ''}{code_point(found[0][-1])}", shown)


def without_passwords(text: str) -> str:
    """Hide the user and password of every address in a text."""
    return _PASSWORD.sub("…@", text)
