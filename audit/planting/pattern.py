r"""A pattern of one's own, such as EMP-[0-9]{6}, read as the space of the values that match it.

It is a small part of regular expressions, in which every value is as long and as likely as any
other: characters that stand for themselves, classes such as [A-Z0-9], \d, and a number of times
{n} after one of these. A sign of regular expressions stands for itself after a backslash.
"""

from __future__ import annotations

import re
import string

from audit.core.errors import UsageError
from audit.core.secret import DIGITS, Space

FEWEST = 1000  # values; of fewer, a guess is right too often to show a leak
LONGEST = 64  # characters
_TIMES = re.compile(r"\{([0-9]{1,2})\}")
_SIGNS = r"\.^$*+?{}[]|()"  # of regular expressions: meant as such, unless after a backslash
_CHARACTERS = string.ascii_letters + string.digits + string.punctuation
_RANGES = (string.ascii_lowercase, string.ascii_uppercase, DIGITS)


def space_of(expression: str, where: str) -> Space:
    """Read a pattern as a space of single characters. Raises UsageError.

    where: the setting that gives it, for the message.
    """
    try:
        places = _places(expression)
        _check(places)
    except ValueError as error:
        raise UsageError(
            f"{where} is {expression!r}: {error}; write characters, classes such as [A-Z0-9], \\d, "
            "and {n} after one of these"
        ) from None
    return Space(tuple(places))


def _places(expression: str) -> list[tuple[str, ...]]:
    places: list[tuple[str, ...]] = []
    rest = expression
    while rest:
        one, rest = _one(rest)
        times = _TIMES.match(rest)
        places += [one] * (int(times.group(1)) if times else 1)
        rest = rest[times.end() :] if times else rest
    return places


def _one(text: str) -> tuple[tuple[str, ...], str]:
    """Read one character or class; return what may stand there, and the rest of the text."""
    if text[0] == "[":
        return _class(text)
    if text[:2] == r"\d":
        return tuple(DIGITS), text[2:]
    if text[0] not in _SIGNS:
        return (_known(text[0]),), text[1:]
    if text[0] == "\\" and len(text) > 1 and not text[1].isalnum():
        return (_known(text[1]),), text[2:]
    raise ValueError(f"it has {text[:2]!r}" if text[0] == "\\" else f"it has {text[0]!r}")


def _class(text: str) -> tuple[tuple[str, ...], str]:
    """Read a class; each of its characters once, so that all are equally likely."""
    inside, bracket, rest = text[1:].partition("]")
    if not bracket or not inside or any(sign in inside for sign in "^[\\"):
        raise ValueError(f"its class {text[: len(inside) + 2]!r} cannot be read")
    found: dict[str, None] = {}
    while inside:
        if len(inside) > 2 and inside[1] == "-":
            found |= dict.fromkeys(_range(inside[0], inside[2]))
            inside = inside[3:]
        else:
            found[_known(inside[0])] = None
            inside = inside[1:]
    return tuple(sorted(found)), rest


def _range(first: str, last: str) -> str:
    for whole in _RANGES:
        if first in whole and last in whole and first <= last:
            return whole[whole.index(first) : whole.index(last) + 1]
    raise ValueError(f"{first}-{last} is no range of letters or of digits")


def _known(character: str) -> str:
    if character not in _CHARACTERS:
        raise ValueError(f"it has {character!r}, which is no letter, digit or sign of ASCII")
    return character


def _check(places: list[tuple[str, ...]]) -> None:
    """Raise ValueError for too few values, or for a value that is too long, or runs into a
    sentence's full stop, with which a tokenizer may join it."""
    if len(places) > LONGEST:
        raise ValueError(f"its values have {len(places)} characters, and {LONGEST} at most fit")
    size = Space(tuple(places)).size if places else 0
    if size < FEWEST:
        raise ValueError(f"it has {size} values, of which a guess is right by chance too often")
    if not all(character.isalnum() for character in places[-1]):
        raise ValueError("its values must end in a letter or digit, apart from what follows them")
