"""Beacons: values that many invented users wrote once each, and that every training reads.

No coin decides about them, so they are no evidence of a leak. They show whether an attack sees what
the model learnt: a value that many users share, which a guarantee of users allows it to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

from audit.core.errors import UsageError
from audit.core.randomness import derived_seed, stream
from audit.core.secret import Draw, Secret, Space
from audit.planting.surroundings import Surroundings, surroundings
from audit.planting.templates import Template

VALUES = 2  # of a tier; two that are seen make a p-value small enough


@dataclass(frozen=True)
class Tier:
    """A number of users who write one value of a kind; two values a tier, with users apart."""

    kind: str
    users: int

    def __post_init__(self) -> None:
        if self.users < 2:
            raise UsageError(
                f"beacons of {self.kind}: {self.users} users; at least 2 share a value"
            )


@dataclass(frozen=True)
class Beacon:
    """A value drawn uniformly from `space`, in one record of each of `users`.

    prefix: the sentence before it, which stands before all beacons of the kind and no secret.
    """

    kind: str
    prefix: str
    value: str
    suffix: str
    space: Space
    users: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.prefix}{self.value}{self.suffix}"

    @property
    def tier(self) -> int:
        """The number of users who wrote it."""
        return len(self.users)

    @property
    def draw(self) -> Draw:
        """The value among all that it could have been."""
        return Draw(self.space, self.value)


@dataclass(frozen=True)
class Words:
    """The form of coins' secrets: what beacons share with them, and what they do not.

    templates: a user's own words. pattern: of values. secrets: those of all coins.
    """

    templates: Mapping[str, Template]
    pattern: str
    secrets: Sequence[Secret]


def beacons(
    tiers: Sequence[Tier], users: Iterator[str], seed: int, coins: Words
) -> Iterator[Beacon]:
    """Draw the beacons of all tiers. users: invented, of whom each writes one record."""
    used = {(secret.kind, secret.value) for secret in coins.secrets}
    around = {tier.kind: _apart(tier.kind, seed, coins) for tier in tiers}
    for number, tier in enumerate(tiers):
        words, space = around[tier.kind].words, around[tier.kind].space
        generator = stream(seed, "beacons", "values", number)
        for _ in range(VALUES):
            value = space.draw(generator)
            while (tier.kind, value) in used:
                value = space.draw(generator)
            used.add((tier.kind, value))
            own = tuple(islice(users, tier.users))
            yield Beacon(tier.kind, words.prefix, value, words.suffix, space, own)


def _apart(kind: str, seed: int, coins: Words) -> Surroundings:
    """Draw the surroundings of a kind's beacons, with a sentence that no coin's secret has.

    Where a template has one sentence, beacons have an English one.
    """
    own = coins.templates.get(kind)
    several = own if own is not None and own.before.size > 1 else None
    known = {secret.prefix for secret in coins.secrets}
    for attempt in count():
        drawn = surroundings(kind, derived_seed(seed, "beacons", attempt), several, coins.pattern)
        if drawn.sentence is None or drawn.words.prefix not in known:
            return drawn
    raise AssertionError  # of more sentences than there are secrets one is free
