"""Read typed fields: from words of a command line, or from values of a TOML file."""

from __future__ import annotations

import contextlib
import datetime
import math
import types
import typing
from collections.abc import Collection, Iterable
from typing import Any

from audit.core.errors import UsageError, did_you_mean

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_EXPECTED: dict[Any, str] = {
    bool: "true or false",
    datetime.date: "a day, such as 2030-12-31",
    float: "a number",
    int: "a whole number",
    str: "a string",
}


def pairs(
    words: Iterable[str], known: Collection[str], where: str, called: str = "key"
) -> dict[str, str]:
    """Read words KEY=VALUE, each key once. Raises UsageError that says where.

    known: the keys that there are. called: what a key is, for the message.
    """
    given: dict[str, str] = {}
    for word in words:
        key, _, value = (part.strip() for part in word.partition("="))
        if key not in known:
            hint = did_you_mean(key, list(known)) or f"; it has no {called}s"
            raise UsageError(f"{where}: unknown {called} {key!r}{hint}")
        if not value:
            raise UsageError(f"{where}: {key} has no value; write {key}=VALUE")
        if key in given:
            raise UsageError(f"{where}: {key} is given twice; give it once")
        given[key] = value
    return given


def from_text(text: str, hint: Any, where: str) -> Any:
    """Read a word as a value of the annotated type; a tuple's parts are joined by "+".

    Of `float | str` it is the number where the word is one.

    Raises UsageError that says where, and what was expected.
    """
    (kind, *others), optional = _kinds(hint)
    if optional and text.lower() in ("none", "null"):
        return None
    if others:
        return _first_of((kind, *others), text, where)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(from_text(part, inner, where) for part in text.split("+"))
    if kind is bool and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    try:
        if kind is not bool:
            return kind(text)
    except ValueError:
        pass
    raise _unexpected(text, kind, where)


def from_toml(value: Any, hint: Any, where: str) -> Any:
    """Check that a TOML value is of the annotated type, which no text stands in for.

    Raises UsageError that says where, and what was expected.
    """
    (kind, *_), _ = _kinds(hint)
    if kind is float and type(value) in (int, float):
        if math.isnan(value):
            raise UsageError(f"{where} is nan; expected a number")
        return float(value)
    if typing.get_origin(kind) is tuple and isinstance(value, list):
        return tuple(from_toml(item, str, where) for item in value)
    if kind in (bool, str, datetime.date) and type(value) is kind:
        return value
    raise _unexpected(value, kind, where)


def _first_of(kinds: tuple[Any, ...], text: str, where: str) -> Any:
    """Read a word as the first of several types that it fits."""
    for kind in kinds[:-1]:
        with contextlib.suppress(UsageError):
            return from_text(text, kind, where)
    return from_text(text, kinds[-1], where)


def _kinds(hint: Any) -> tuple[tuple[Any, ...], bool]:
    """Split an annotation into the types of a value, in order, and whether it may be None."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return (hint,), False
    options = typing.get_args(hint)
    return tuple(kind for kind in options if kind is not type(None)), type(None) in options


def _unexpected(value: object, kind: Any, where: str) -> UsageError:
    expected = "a list" if typing.get_origin(kind) is tuple else _EXPECTED.get(kind)
    return UsageError(f"{where} is {str(value)!r}; expected {expected or kind.__name__}")
