"""A privacy guarantee as data: its ε, what it protects, against which change, on what proof."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from audit.core.terms import Relation, Unit


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy guarantee of a release.

    epsilon: ε in nats, for `unit` under `relation`; math.inf for no guarantee, None if unknown.
    delta or alpha: δ of (ε, δ)-DP, or the order α of a Rényi divergence; None for the other.
    unit: what is protected, a `Unit` or another word.
    relation: how neighbouring data sets differ, a `Relation` or another word.
    release: "model", "predictions" (a variable number of sampled tokens), or "text" (a fixed number
        of texts that a model wrote).
    basis: "worst case" or "data-dependent" (this data set, this partition, this run).
    theorem: the theorem that proves ε, or the reason why there is none.
    conditions: assumptions under which it holds, each a sentence for the report.
    published_epsilon: ε by the paper's own accounting, if that accounting does not hold.
    accounting: input of the accounting that gave ε, to repeat it (`audit.accounting`); None if ε is
        no composition of noisy sums.
    population: public number N of units for which the mechanism was calibrated.
    phrases: distribution of ε over a list of phrases, one entry a relation; for the auditor only,
        because how often a phrase occurs is private.
    teachers_per_user: number of users in 1, 2, … teachers; private, for the auditor only.
    also: further relations under which the same ε and δ hold for the unit.
    """

    epsilon: float | None
    unit: Unit | str
    relation: Relation | str
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
    also: tuple[Relation | str, ...] = ()

    def __post_init__(self) -> None:
        if self.epsilon is not None and not self.epsilon >= 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must be at least 0, inf or None")

    @property
    def promises_nothing(self) -> bool:
        """True if ε is infinite or unknown."""
        return self.epsilon is None or math.isinf(self.epsilon)

    def of_texts(self, count: int, tokens: int) -> Guarantee:
        """State the guarantee of texts that the released model or service writes once."""
        how = (
            f"only {count:,} texts of at most {tokens} tokens are published, written once after "
            "the start token; both numbers are public, and no prompt, filter or deduplication "
            "looks at private text, so the guarantee is that of what wrote them (post-processing)"
        )
        return replace(self, release="text", conditions=(*self.conditions, how))

    @property
    def constant(self) -> bool:
        """True if the claim is a constant answer: ε = 0 and δ = 0 for whole users or records."""
        zero = self.epsilon == 0 and not self.delta and self.basis == "worst case"
        whole = self.unit in (Unit.USER, Unit.RECORD)
        return zero and whole and self.relation == Relation.ADD_OR_REMOVE

    def incomparable(self, unit: str, relation: str, delta: float | None) -> str | None:
        """Explain why a bound for (unit, relation, δ) cannot refute this; None if it can.

        ε = 0 and δ = 0 under add_or_remove mean a constant answer, which satisfies every unit and
        relation.
        """
        if self.constant:
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
        if (delta or 0) < (self.delta or 0):
            return f"the claim allows δ = {self.delta:g}, the bound assumed only {delta or 0:g}"
        return None


_NESTED: tuple[str, ...] = (Unit.ATTRIBUTES, Unit.RECORD, Unit.USER)  # each within the next


def _contains(claimed: str, bounded: str, relation: str) -> bool:
    """Decide whether a bound for the unit `bounded` is also one for the unit `claimed`.

    Under replace, a change of a smaller unit is a special change of a larger one. Under
    add-or-remove it is not, and a bound for the larger unit never holds for the smaller.
    """
    if claimed == bounded or (bounded == Unit.ONE_RECORD and claimed in (Unit.RECORD, Unit.USER)):
        return True
    if relation != Relation.REPLACE or not {claimed, bounded} <= set(_NESTED):
        return False
    return _NESTED.index(bounded) < _NESTED.index(claimed)


def default_delta(units: int) -> float:
    """Compute δ of a claim that names none: min(1/(10·N), 1e-5) for N units.

    δ near 1/N permits publishing one unit outright, and the term 2mδ of the one-run test keeps
    every claim standing where δ is near 1/m for m coins.
    """
    return min(1.0 / (10.0 * units), 1e-5)


def no_guarantee(reason: str, release: str = "model") -> Guarantee:
    """State that there is no guarantee (ε = inf), for this reason."""
    return Guarantee(math.inf, Unit.USER, Relation.ADD_OR_REMOVE, release, "worst case", reason)
