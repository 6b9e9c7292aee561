"""The grid of a sweep: the `[sweep]` table of a plan file, checked and multiplied out."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.defense import Defense
from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_text
from audit.plugins import registry

KEYS = ("defense", "epsilon", "seeds")
Axes = dict[str, tuple[str, ...]]  # the values of each parameter, as a command line writes them


@dataclass(frozen=True)
class Grid:
    """Settings that a sweep varies.

    defenses: as on the command line. epsilons: ε (nats) of each defense that has one; () for each
    its own. axes: further parameters by defense. An axis applies where a defense's text leaves it
    out.
    """

    defenses: tuple[str, ...]
    epsilons: tuple[str, ...]
    axes: dict[str, Axes]
    seeds: tuple[int, ...]

    @property
    def document(self) -> dict[str, Any]:
        """The table as results.json shows it."""
        axes = {name: {k: list(v) for k, v in axes.items()} for name, axes in self.axes.items()}
        epsilons = [float(value) for value in self.epsilons]
        seeds = list(self.seeds)
        return {"defense": list(self.defenses), "epsilon": epsilons, "seeds": seeds, **axes}

    def settings(self) -> tuple[str, ...]:
        """List every defense of one seed, as `NAME:key=value,…`. Raises UsageError."""
        texts = [text for defense in self.defenses for text in self._expanded(defense)]
        if self.epsilons and not any("epsilon" in _fields(_name(d)) for d in self.defenses):
            raise UsageError(
                f"sweep: epsilon was given, but no defense has one ({', '.join(self.defenses)})"
            )
        return tuple(texts)

    def _expanded(self, text: str) -> list[str]:
        name, _, rest = text.partition(":")
        pairs = [pair.strip() for pair in rest.split(",") if pair.strip()]
        given = {pair.partition("=")[0].strip() for pair in pairs}
        fields = _fields(name.strip())
        common = {"epsilon": self.epsilons} if self.epsilons and "epsilon" in fields else {}
        axes = {**common, **self.axes.get(name.strip(), {})}
        for key in axes:
            if key not in fields:
                raise UsageError(
                    f"sweep.{name}: unknown parameter {key!r}{did_you_mean(key, fields)}"
                )
        varied = {key: values for key, values in axes.items() if key not in given}
        products = itertools.product(*varied.values())
        return [
            f"{name.strip()}:{','.join([*pairs, *map('='.join, zip(varied, values, strict=True))])}"
            for values in products
        ]


def grid_of(table: Mapping[str, Any], settings: Mapping[str, Any]) -> Grid:
    """Read the grid of a `[sweep]` table; the plan's other settings fill what it leaves out.

    Raises UsageError for unknown keys, values of the wrong type, and what is given twice.
    """
    for key in ("defense", "epsilon"):
        if key in table and key in settings:
            raise UsageError(f"sweep: {key} stands in the [sweep] table and outside; keep one")
    defenses = _texts(table.get("defense", list(settings.get("defense", ()))), "defense")
    if not defenses:
        raise UsageError("sweep: no defense is named; add defense = [...] to [sweep]")
    single = [settings["epsilon"]] if settings.get("epsilon") is not None else []
    names = list(dict.fromkeys(map(_name, defenses)))
    axes = {key: _axes(key, table[key], names) for key in table if key not in KEYS}
    return Grid(
        defenses=defenses,
        epsilons=_numbers(table["epsilon"] if _given(table, "epsilon") else single),
        axes=axes,
        seeds=_seeds(table.get("seeds", [settings.get("seed", 0)])),
    )


def _given(table: Mapping[str, Any], key: str) -> bool:
    """Return whether a key is there, and not empty. Raises UsageError where it is."""
    return key in table and bool(_values(table[key], key))


def _axes(name: str, table: Any, names: Sequence[str]) -> Axes:
    if not isinstance(table, dict):
        raise UsageError(f"sweep: unknown key {name!r}{did_you_mean(name, [*KEYS, *names])}")
    if name not in names:
        hint = did_you_mean(name, list(names))
        raise UsageError(f"sweep: [sweep.{name}] belongs to no defense of the sweep{hint}")
    return {key: _values(values, f"{name}.{key}") for key, values in table.items()}


def _values(values: Any, where: str) -> tuple[str, ...]:
    texts = _texts(values, where)
    if not texts:
        raise UsageError(
            f"sweep: {where} is empty, so nothing would be run; name values or drop it"
        )
    return texts


def _texts(values: Any, where: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(_plain(v) for v in values):
        raise UsageError(f"sweep: {where} is a list of values, such as [1, 3]")
    texts = tuple(map(_text, values))
    if len(set(texts)) < len(texts):
        raise UsageError(f"sweep: {where} names a value twice; once is enough")
    return texts


def _plain(value: Any) -> bool:
    flat = value if isinstance(value, list) else [value]
    return all(isinstance(v, (str, int, float)) for v in flat)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbers(values: Any) -> tuple[str, ...]:
    texts = _texts(values, "epsilon")
    for text in texts:
        if not 0 < from_text(text, float, "sweep: epsilon") < float("inf"):
            raise UsageError(f"sweep: epsilon is {text}; it must be above 0 and finite")
    return texts


def _seeds(values: Any) -> tuple[int, ...]:
    whole = isinstance(values, list) and all(type(v) is int and v >= 0 for v in values)
    if not whole or not values or len(set(values)) < len(values):
        raise UsageError("sweep: seeds is a list of different whole numbers, such as [0, 1, 2]")
    return tuple(values)


def _name(text: str) -> str:
    return text.partition(":")[0].strip()


def _fields(name: str) -> list[str]:
    cls: type[Any] = registry.plugin("defenses", name, Defense)
    return [field.name for field in dataclasses.fields(cls)]
