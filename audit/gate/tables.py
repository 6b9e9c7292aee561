"""Reads TOML tables into dataclasses, and finds the line numbers that tomllib does not keep."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeVar

from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_toml

T = TypeVar("T")
_HEADER = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")
_KEY = re.compile(r"\s*[\"']?([^\s\"'=\[\]#]+)[\"']?\s*=")


class Lines:
    """The line numbers of tables and keys.

    Text inside a longer value may pass for a key; then only the number in a message is wrong.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._numbers: dict[tuple[str, int, str], int] = {}
        seen: Counter[str] = Counter()
        table = ""
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = header[1]
                seen[table] += 1
                self._numbers[table, seen[table] - 1, ""] = number
            elif key := _KEY.match(line):
                self._numbers.setdefault((table, max(0, seen[table] - 1), key[1]), number)

    def of(self, table: str, index: int, key: str = "") -> int | None:
        """Return the line number of a key, else of its table."""
        places = [(table, index, key), (table, index, ""), ("", 0, table)]
        if not table:
            places.insert(1, (key, 0, ""))  # a key that opens a table of its own
        return next((self._numbers[place] for place in places if place in self._numbers), None)

    def at(self, table: str, index: int, key: str = "") -> str:
        """Write file and line for an error message: `audit.toml:7`."""
        line = self.of(table, index, key)
        return self.name if line is None else f"{self.name}:{line}"


def made(
    cls: type[T],
    table: dict[str, Any],
    lines: Lines,
    name: str,
    i: int,
    left_out: Iterable[str] = (),
    known: Iterable[str] = (),
) -> T:
    """Read a table into a dataclass; its field `line`, if any, becomes the table's line.

    left_out: fields that no key sets. known: further keys to suggest. Raises UsageError, with the
    line, for an unknown key, a value of the wrong type or a missing one.
    """
    every = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    fields = {key: f for key, f in every.items() if key not in {"line", *left_out}}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = lines.at(name, i, key)
        if key not in fields:
            hint = did_you_mean(key, [*fields, *known])
            raise UsageError(f"{where}: unknown key {key!r}{hint}")
        values[key] = from_toml(value, hints[key], f"{where}: {key}")
    missing = [f.name for f in fields.values() if f.name not in values and _required(f)]
    if missing:
        raise UsageError(f"{lines.at(name, i)}: [[{name}]] has no {missing[0]!r}")
    if "line" in every:
        values["line"] = lines.of(name, i)
    return cls(**values)


def _required(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
