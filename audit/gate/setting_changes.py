"""Compares the settings of two runs: plan, seed, corpus and the versions they ran with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from audit.gate.identity import OF_CORPUS
from audit.results.schema import Results

LONGEST = 60  # characters of a value that are shown
_DERIVED = ("hash", "corpus")  # follow from the other settings, or stand with the corpus
_PASSING = ("began", "date", "seconds")  # of the environment: no two runs share them
_ABSENT = "not set"


def settings(results: Results) -> dict[str, Any]:
    """List every setting of a run by its dotted name, as in `training.epochs`."""
    tree = {
        "status": results.status,
        "corpus": {name: getattr(results.corpus, name) for name in OF_CORPUS},
        **{name: value for name, value in results.plan.items() if name not in _DERIVED},
        "environment": {k: v for k, v in results.environment.items() if k not in _PASSING},
    }
    return dict(_leaves("", tree))


def changes(one: Results, other: Results) -> tuple[list[tuple[str, str, str]], int]:
    """List the settings that differ, each with both values, and count those that are the same."""
    before, after = settings(one), settings(other)
    names = list(dict.fromkeys([*before, *after]))
    differing = [name for name in names if _json(before, name) != _json(after, name)]
    rows = [(name, *_both(_json(before, name), _json(after, name))) for name in differing]
    return rows, len(names) - len(differing)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    inner = value if isinstance(value, Mapping) else _by_name(value)
    if not inner:
        yield name, value
        return
    for key, child in inner.items():
        yield from _leaves(f"{name}.{key}" if name else str(key), child)


def _by_name(value: Any) -> dict[str, Any]:
    """Turn a list of named plugins into a table, so that a parameter has a name of its own."""
    named = isinstance(value, Sequence) and not isinstance(value, str) and bool(value)
    if not named or not all(isinstance(one, Mapping) and "name" in one for one in value):
        return {}
    seen: Counter[str] = Counter()
    table: dict[str, Any] = {}
    for one in value:
        name = str(one["name"])
        seen[name] += 1
        rest = {key: inner for key, inner in one.items() if key not in ("name", "parameters")}
        parameters = one.get("parameters")
        own = parameters if isinstance(parameters, Mapping) else {}
        table[f"{name}#{seen[name]}" if seen[name] > 1 else name] = {"used": True, **rest, **own}
    return table


def _json(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return _ABSENT
    return json.dumps(values[name], sort_keys=True, ensure_ascii=False)


def _both(one: str, other: str) -> tuple[str, str]:
    """Cut two long values so that both still show where they begin to differ."""
    pairs = zip(one, other, strict=False)
    first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    start = 0 if first < LONGEST - 2 else first - 8
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    shown = text if start == 0 else f"…{text[start:]}"
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
