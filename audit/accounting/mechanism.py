"""The mechanism to account for: composed terms, as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.accounting.term import Term
from audit.core.terms import Relation

RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """All that ε depends on: the composed releases and the relation of neighbours.

    relation: "add_or_remove" (the unit's records are present or absent), or "replace" (they are
    exchanged: each sum moves by up to 2C a record, which is accounted for here, not by the caller).
    Raises ValueError for any other, and for one in which the worst case of a term is not known,
    such as replaced units of several sampled records: see `epsilon_under_replace`.
    """

    terms: tuple[Term, ...]
    relation: str

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {RELATIONS}; got {self.relation!r}")
        if reason := unknown_under(self.relation, self.terms):
            raise ValueError(reason)

    @property
    def active(self) -> tuple[Term, ...]:
        """Return the terms that release anything of the unit."""
        return tuple(term for term in self.terms if not term.inactive)

    @property
    def is_gaussian(self) -> bool:
        """Test whether all releases together are exactly one Gaussian."""
        return all(term.is_gaussian for term in self.active)

    @property
    def noiseless(self) -> bool:
        """Test whether some release of the unit has no noise."""
        return any(term.noise_multiplier == 0.0 for term in self.active)

    @property
    def mu(self) -> float:
        """Compute μ of a Gaussian that dominates all releases, not amplified; inf: none known."""
        return math.hypot(*(term.mu(self.relation) for term in self.terms))


def unknown_under(relation: str, terms: Sequence[Term]) -> str:
    """State why no worst-case pair of these terms is known in a relation; "": it is known."""
    return next(filter(None, (term.unknown_under(relation) for term in terms)), "")
