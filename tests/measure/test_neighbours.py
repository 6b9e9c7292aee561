"""Which neighbours an attack on a ledger meets: those that the guarantee speaks of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from audit.core.guarantee import Guarantee
from audit.core.release import Release
from audit.core.terms import Relation, Unit
from audit.measure.neighbours import neighbours


@dataclass(frozen=True)
class Service(Release):
    """Three parts; opens no session, but says who it is."""

    relation: Relation
    also: tuple[Relation, ...] = ()
    lacks: str = ""
    parts: int = 3
    drawn: list[float] = field(default_factory=list)

    @property
    def guarantee(self) -> Guarantee:
        basis = "worst case"
        return Guarantee(1.0, Unit.PART, self.relation, "predictions", basis, "t", also=self.also)

    def open(self, stream: np.random.Generator, journal: Any) -> Any:
        self.drawn.append(stream.random())
        return self.lacks

    def unprotected(self) -> None:
        return None

    def neighbour(self, unit: int) -> Service:
        return self._without(unit, f"without {unit}")

    def replaced(self, unit: int) -> Service:
        return self._without(unit, f"other {unit}")

    def _without(self, unit: int, lacks: str) -> Service:
        if unit >= self.parts:
            raise IndexError
        return replace(self, lacks=lacks)


def opened(release: Release) -> list[tuple[Any, int, str]]:
    return [(n.predictor, n.unit, str(n.relation)) for n in neighbours(release, 0, "test")]


@pytest.mark.parametrize("relation", [Relation.REMOVED, Relation.EMPTIED])
def test_a_part_that_is_gone(relation: Relation) -> None:
    expected = [(f"without {i}", i, str(relation)) for i in range(3)]
    assert opened(Service(relation)) == expected


def test_a_replaced_part_says_nothing_against_a_claim_on_removed_ones() -> None:
    replaced = [(f"other {i}", i, "replace") for i in range(3)]
    removed = [(f"without {i}", i, "removed") for i in range(3)]
    assert opened(Service(Relation.REPLACE)) == replaced
    assert opened(Service(Relation.REPLACE, (Relation.REMOVED,))) == replaced + removed


def test_every_session_draws_for_itself() -> None:
    service = Service(Relation.REPLACE, (Relation.REMOVED,))
    neighbours(service, 0, "test")
    assert len(set(service.drawn)) == 6


def test_a_release_may_have_no_neighbour() -> None:
    class Alone(Service):
        def neighbour(self, unit: int) -> None:  # type: ignore[override]
            return None

    assert opened(Alone(Relation.REMOVED)) == []
    assert opened(Service(Relation.REMOVED, parts=0)) == []
