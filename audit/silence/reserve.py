"""Draws people for the spiked copy: as many as the audit has coins, planted and scored nowhere.

They are like the planted ones in all but their values, of which none is planted: the same words
before a value, the same spaces, copies and number of people in and out. So what a measure finds in
them it would find in the planted ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from audit.core.digest import digest_of_json
from audit.core.randomness import derived_seed, stream
from audit.core.secret import Coins, Secret
from audit.core.wording import Wording
from audit.planting.coins import coins_of
from audit.planting.planting import drawn
from audit.prepare.run import Run

_NOISE = 1e-9  # of a share


@dataclass(frozen=True)
class Reserve:
    """Invented people with two values of each kind, and their coins.

    every: one of so many people in is memorised: the smallest leak of scores that must be found.
    """

    secrets: tuple[Secret, ...]
    coins: Coins
    every: int = 3

    @cached_property
    def memorised(self) -> tuple[Secret, ...]:
        """The values to memorise, of a part of the people in, of all numbers of copies."""
        copies: dict[str, list[int]] = {}
        for secret in self.secrets:
            copies.setdefault(secret.owner, []).append(secret.copies)
        people = sorted((o for o in copies if self.coins.present[o]), key=lambda o: copies[o])
        chosen = set(people[:: self.every])
        return tuple(s for s in self.secrets if s.owner in chosen and self.coins.planted(s))

    @cached_property
    def controls(self) -> tuple[Secret, ...]:
        """The values of the people out, less those that are memorised, by accident."""
        known = {(s.kind, s.value) for s in self.memorised}
        twins = (s for s in self.secrets if self.coins.twin(s))
        return tuple(s for s in twins if (s.kind, s.value) not in known)


def reserve_of(run: Run) -> Reserve:
    """Draw the reserve of a run, from a stream of its own that no planting uses."""
    seed = derived_seed(run.plan.seed, "reserve", digest_of_json(run.plan.source.document))
    audited = run.planted.coins
    people = tuple(f"reserve {place}" for place in range(len(audited.present)))
    tossed = stream(seed, "coins")
    present = tossed.permutation(list(audited.present.values()))
    coins = coins_of(people, present, tossed.integers(2, size=len(people)))
    every = math.ceil(1 / run.plan.reach.scores - _NOISE)
    return Reserve(tuple(_secrets(run, people, seed)), coins, every)


def _secrets(run: Run, people: tuple[str, ...], seed: int) -> Iterator[Secret]:
    """Draw the values of every kind that is drawn; names and records of a corpus have no more."""
    kinds: dict[str, list[Secret]] = {}
    for secret in run.planted.secrets:
        if secret.space is not None and secret.slot == 0:
            kinds.setdefault(secret.kind, []).append(secret)
    for kind, planted in kinds.items():
        first, copies = planted[0], {secret.owner: secret.copies for secret in planted}
        each = tuple(copies.get(owner, 0) for owner in run.planted.coins.present)
        assert first.space is not None
        words = Wording(first.prefix, first.suffix)
        yield from drawn(
            kind,
            words,
            first.space,
            each,
            people,
            seed,
            lambda t: len(run.tokenizer.encode(t)),
            _taken(run, kind),
        )


def _taken(run: Run, kind: str) -> set[str]:
    """Collect the values of a kind that the model may have learnt: of coins and of beacons."""
    record = run.plan.source.record
    beacons = () if record is None else record.beacons
    values = {secret.value for secret in run.planted.secrets if secret.kind == kind}
    return values | {beacon.value for beacon in beacons if beacon.kind == kind}
