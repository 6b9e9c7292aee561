"""Opens what a release would be on data that differ in one unit, for an attack on its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from audit.core.attack import Neighbour
from audit.core.randomness import stream
from audit.core.release import NoJournal, Release
from audit.core.terms import Relation


def neighbours(release: Release, seed: int, purpose: str) -> tuple[Neighbour, ...]:
    """Open a session with every neighbour that the guarantee covers; () where there is none.

    A neighbour with a part replaced does not test a claim on parts that are removed, nor the
    other way round.
    """
    guarantee = release.guarantee
    relations = (guarantee.relation, *guarantee.also)
    made: dict[str, Callable[[int], Release | None]] = {
        relation: release.replaced if relation == Relation.REPLACE else release.neighbour
        for relation in dict.fromkeys(relations)
    }
    return tuple(
        Neighbour(other.open(stream(seed, purpose, relation, unit), NoJournal()), unit, relation)
        for relation, make in made.items()
        for unit, other in _units(make)
    )


def _units(make: Callable[[int], Release | None]) -> Iterator[tuple[int, Release]]:
    """Yield the units, to the first that is not there or has no neighbour."""
    for unit in count():
        try:
            other = make(unit)
        except IndexError:
            return
        if other is None:
            return
        yield unit, other
