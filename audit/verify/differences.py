"""Compares what stands in a document with what follows, one line for each difference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from audit.results.numbers import agree

_NAMES = (  # of a list's rows: the first fields that all have and that tell them apart
    ("attack", "metric"),
    ("attack", "metric", "unit"),
    ("purpose",),
    ("defense",),
    ("defense", "parameters"),
    ("defense", "parameters", "seed"),
)
_LONGEST = 100  # letters of a value that are shown
_GONE = object()


def differences(place: str, stated: Any, derived: Any) -> Iterator[str]:
    """Yield `place: stands …, follows …` for each leaf of two JSON values that differs.

    Rows of a list are compared by their names, where they have some; of a list of numbers only the
    first that differs is shown. Numbers may differ as machines do.
    """
    if isinstance(stated, dict) and isinstance(derived, dict):
        for name in {**derived, **stated}:
            if name not in stated and derived[name] is None:
                continue  # a field that came later, which an older version did not write
            at = f"{place}.{name}" if place else str(name)
            yield from differences(at, stated.get(name, _GONE), derived.get(name, _GONE))
    elif _rows(stated) and _rows(derived):
        yield from _of_rows(place, stated, derived)
    elif isinstance(stated, list) and isinstance(derived, list) and len(stated) == len(derived):
        for i, (one, other) in enumerate(zip(stated, derived, strict=True)):
            line = next(differences(f"{place}.{i}", one, other), None)
            if line is not None:
                yield line
                return
    elif not _same(stated, derived):
        yield f"{place}: stands {shown(stated)}, follows {shown(derived)}"


def shown(value: Any) -> str:
    """Write a JSON value on one line, shortened."""
    if value is _GONE:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _of_rows(place: str, stated: list[Any], derived: list[Any]) -> Iterator[str]:
    fields = next(
        (names for names in _NAMES if _apart(stated, names) and _apart(derived, names)), ()
    )
    ours, theirs = _named(stated, fields), _named(derived, fields)
    for name in {**theirs, **ours}:
        at = f"{place}.{name.replace(' ', '.')}"
        if name not in ours:
            yield f"{at}: is not there, but it follows"
        elif name not in theirs:
            yield f"{at}: stands there, and nothing is known of it"
        else:
            yield from differences(at, ours[name], theirs[name])
    if ours.keys() == theirs.keys() and list(ours) != list(theirs):
        yield f"{place}: are in another order than follows"


def _apart(rows: list[Any], fields: tuple[str, ...]) -> bool:
    """Return whether all rows have these fields, and no two the same."""
    return all(set(fields) <= set(row) for row in rows) and len(_named(rows, fields)) == len(rows)


def _named(rows: list[Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Call rows by these fields, or by their place where there are none."""
    places = enumerate(rows)
    return {" ".join(_word(row[f]) for f in fields) or str(i): row for i, row in places}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _same(one: Any, other: Any) -> bool:
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (one, other))
    if numbers and float in (type(one), type(other)):
        return agree(one, other)
    return type(one) is type(other) and bool(one == other)
