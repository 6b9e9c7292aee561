"""Scores as they are given: one a person, from any trainer and attack, checked before any test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.core.errors import UsageError, first_line
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit
from audit.statistics.binomial import tail

LEAST = 10  # people on each side: with fewer, hardly any outcome could be called a leak
_UNEVEN = 1e-6  # probability of fair coins below which people were left out

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sides:
    """Scores of people in and out, one a person, higher = more like a member: (n,), (m,)."""

    inside: Floats
    outside: Floats

    @classmethod
    def read(cls, inside: ArrayLike, outside: ArrayLike, names: tuple[str, str]) -> Self:
        """Check both sides. names: of the arguments. Raises UsageError with one line."""
        read = (_numbers(inside, names[0]), _numbers(outside, names[1]))
        for values, name in zip(read, names, strict=True):
            if values.ndim != 1:
                raise UsageError(f"{name}: has {values.ndim} dimensions; give one score a person")
            if values.size < LEAST:
                raise UsageError(f"{name}: {values.size} scores; give those of {LEAST} or more")
        whole = np.concatenate(read)
        if (whole == whole[0]).all():
            both = " and ".join(names)
            raise UsageError(f"{both}: every score is {whole[0]:g}; check what computes them")
        sizes = [values.size for values in read]
        if 2 * tail(max(sizes), sum(sizes), 0.5) < _UNEVEN:
            raise UsageError(
                f"{names[0]} has {sizes[0]} scores and {names[1]} {sizes[1]}, which fair coins do "
                "not give; score everyone who had a coin"
            )
        return cls(*read)


@dataclass(frozen=True, eq=False)
class Beacons:
    """Scores of values that many users wrote: (b,), and of b times k others not planted: (b, k)."""

    own: Floats
    others: Floats

    @classmethod
    def read(cls, given: Any) -> Self:
        """Check a pair (scores of the beacons, scores of their candidates). Raises UsageError."""
        own, others = _pair(given, "beacons", "(scores of beacons, scores of their candidates)")
        planted, rows = _numbers(own, "beacons[0]"), _numbers(others, "beacons[1]")
        rows = rows[None] if rows.ndim == 1 else rows
        if planted.ndim != 1 or rows.ndim != 2 or len(rows) != planted.size:
            raise UsageError(
                f"beacons: {planted.size} beacons, and candidates of shape {rows.shape}; give one "
                "row of candidates a beacon"
            )
        if not rows.size:
            raise UsageError("beacons: no candidates; score 999 or more other values a beacon")
        return cls(planted, rows)


def control(given: Any) -> Sides:
    """Check the pair (in, out) of a positive control. Raises UsageError."""
    inside, outside = _pair(given, "control", "(scores in, scores out)")
    return Sides.read(inside, outside, ("control[0]", "control[1]"))


def delta(given: Any) -> float:
    """Check δ of the bound on ε. Raises UsageError."""
    if not _is_number(given) or not 0 <= given < 1:
        raise UsageError(f"delta: {given!r} is not a number of at least 0 and below 1")
    return float(given)


def claim(given: Any, at: float) -> Guarantee:
    """Read a claim: a guarantee, ε in nats per user at this δ, or None. Raises UsageError."""
    if isinstance(given, Guarantee):
        return given
    if given is not None and (not _is_number(given) or not given >= 0):
        raise UsageError(f"claim: {given!r} is neither ε >= 0 (nats) nor a Guarantee")
    epsilon = None if given is None else float(given)
    finite = epsilon is not None and not math.isinf(epsilon)
    return Guarantee(
        epsilon,
        Unit.USER,
        Relation.ADD_OR_REMOVE,
        release="model",
        basis="worst case",
        theorem="as stated with the scores" if finite else "no guarantee was stated",
        delta=at if finite else None,
    )


def _is_number(given: Any) -> bool:
    real = isinstance(given, int | float | np.integer | np.floating)
    return real and not isinstance(given, bool) and not math.isnan(given)


def _pair(given: Any, name: str, what: str) -> tuple[Any, Any]:
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str) or len(given) != 2:
        raise UsageError(f"{name}: is not a pair {what}")
    return given[0], given[1]


def _numbers(given: ArrayLike, name: str) -> Floats:
    """Convert scores. Raises UsageError for what is not a finite number."""
    try:
        raw = np.atleast_1d(np.asarray(given))
    except (ValueError, TypeError, RuntimeError) as error:
        raise UsageError(f"{name}: cannot be read as numbers ({first_line(error)})") from None
    if raw.size and raw.dtype.kind not in "iuf":
        raise UsageError(f"{name}: holds what is not a number; give numbers")
    values = raw.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        place = ", ".join(map(str, wrong[0].tolist()))
        value = float(values[tuple(wrong[0])])
        raise UsageError(f"{name}: the score at place {place} is {value}; give finite scores")
    return values
