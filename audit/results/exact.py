"""JSON values with floats written exactly, in letters: digits could be mistaken for a secret."""

from __future__ import annotations

import re
import struct
from typing import Any

_LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_DIGITS = {letter: digit for digit, letter in _LETTERS.items()}
_FLOAT = re.compile("~[a-p]{16}")


def pack(value: Any) -> Any:
    """Write every float in a JSON value as "~" and its 8 bytes, hexadecimal in the letters a-p."""
    if isinstance(value, dict):
        return {str(key): pack(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(inner) for inner in value]
    if isinstance(value, float):
        return "~" + letters(struct.pack(">d", value))
    return value


def letters(content: bytes) -> str:
    """Write bytes hexadecimal in the letters a-p."""
    return content.hex().translate(_LETTERS)


def of_letters(text: str) -> bytes:
    """Restore the bytes that `letters` wrote. Raises ValueError for other text."""
    return bytes.fromhex(text.translate(_DIGITS))


def unpack(value: Any) -> Any:
    """Restore what `pack` wrote; tuples come back as lists, keys as text."""
    if isinstance(value, dict):
        return {key: unpack(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unpack(inner) for inner in value]
    if isinstance(value, str) and _FLOAT.fullmatch(value):
        number: float = struct.unpack(">d", of_letters(value[1:]))[0]
        return number
    return value
