"""A guarantee is more than a number: unit, relation, release, basis, order, theorem, conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a release promises.

    epsilon: nats, for `unit` under `relation`; math.inf promises nothing, None is unknown.
    delta or alpha: of (ε, δ)-DP, or the order of a Rényi divergence; None where it has none.
    unit: "record", "user", "part", "phrase", "private attributes of a record" (or "of a user").
    relation: "add_or_remove", "replace" or "removed" (a part is taken away).
    release: "model" or "predictions" (a variable number of sampled tokens).
    basis: "worst case" or "data-dependent" (this data set, this partition, this run).
    published_epsilon: what the paper's own accounting gives, where that is not what holds.
    accounting: what ε was worked out from, so that it can be worked out again (`audit.accounting`);
        None where ε is no composition of noisy sums.
    population: N, the public number of units the mechanism was fixed for.
    phrases: the distribution of ε over a list of phrases, one entry a relation; for the auditor,
        since how often a phrase stands in the private text is private.
    teachers_per_user: how many users 1, 2, … teachers hear; for the auditor, since it is private.
    also: other relations under which ε and δ hold for the unit just the same.
    """

    epsilon: float | None
    unit: str
    relation: str
    release: str
    basis: str
    theorem: str
    delta: float | None = None
    alpha: float | None = None
    conditions: tuple[str, ...] = ()
    published_epsilon: float | None = None
    accounting: dict[str, Any] | None = None
    population: int | None = None
    phrases: tuple[dict[str, Any], ...] = ()
    teachers_per_user: dict[int, int] | None = None
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must be at least 0, inf or None")

    @property
    def promises_nothing(self) -> bool:
        """True where ε is infinite or unknown."""
        return self.epsilon is None or math.isinf(self.epsilon)

    @property
    def _constant(self) -> bool:
        zero = self.epsilon == 0 and not self.delta and self.basis == "worst case"
        return zero and self.relation == "add_or_remove" and self.unit in ("user", "record")

    def incomparable(self, unit: str, relation: str, delta: float | None) -> str | None:
        """Why a bound for (unit, relation, δ) cannot refute this guarantee; None where it can.

        A constant answer, ε = 0 and δ = 0 whoever comes or goes, is so for every unit and relation.
        """
        if self._constant:
            return None
        if self.alpha is not None:
            return f"the claim is a Rényi divergence of order {self.alpha:g}, the bound an (ε, δ)"
        if self.basis != "worst case":
            return f"the claim is {self.basis}, the bound holds for the worst case"
        held = (self.relation, *self.also)
        if relation not in held or not _contains(self.unit, unit, relation):
            return (
                f"the claim is per {self.unit} ({self.relation}), the bound per {unit} ({relation})"
            )
        if (delta or 0) * _ROUNDED < (self.delta or 0):
            return f"the claim allows δ = {self.delta:g}, the bound assumed only {delta or 0:g}"
        return None

    def incomparable_to(self, other: Guarantee) -> str | None:
        """Why the two ε may not be ranked; None where they may."""
        for name in ("unit", "relation", "basis", "alpha", "delta"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"their {name} differs: {mine} and {theirs}"
        return None


_ROUNDED = 1 + 1e-5  # results.json rounds a claim's δ up, a bound's to the nearest: six digits
ONE_RECORD = "user of one record"  # who comes or goes as a user does, and as a record
_NESTED = ("private attributes of a record", "record", "user")  # each within the next


def _contains(claimed: str, bounded: str, relation: str) -> bool:
    """Whether a bound for the unit `bounded` speaks about a claim for `claimed`.

    Under replace a smaller unit may be all that a larger one changes; under add-or-remove it may
    not, and the larger one never speaks about the smaller.
    """
    if claimed == bounded or (bounded == ONE_RECORD and claimed in ("record", "user")):
        return True
    if relation != "replace" or not {claimed, bounded} <= set(_NESTED):
        return False
    return _NESTED.index(bounded) < _NESTED.index(claimed)


def no_guarantee(reason: str, release: str = "model") -> Guarantee:
    """ε = inf: nothing is promised, and `reason` says why."""
    return Guarantee(math.inf, "user", "add_or_remove", release, "worst case", reason)
