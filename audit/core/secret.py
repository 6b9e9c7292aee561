"""Secrets: what may be planted into a corpus, and the coins that decide it, kept apart.

Every planted user has two candidate values of each drawn kind. One fair coin decides whether the
user is trained on at all, with all copies of all secrets; a second, independent coin decides which
of the two values the user's secrets take. Attacks see the candidates; only statistics see coins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError

KINDS = ("code", "id", "name", "record")


DIGITS = "0123456789"


NAME_PREFIX = "My name is "


@dataclass(frozen=True, slots=True)
class Space:
    """Where a value was drawn from, uniformly: one symbol of `symbols[i]` at each place i."""

    symbols: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """|R|, the number of values."""
        return math.prod(len(place) for place in self.symbols)

    def draw(self, generator: np.random.Generator) -> str:
        """A uniform value."""
        return "".join(place[int(generator.integers(len(place)))] for place in self.symbols)


def digits(length: int) -> Space:
    """All codes of `length` decimal digits."""
    return Space((tuple(DIGITS),) * length)


@dataclass(frozen=True, slots=True)
class Secret:
    """One candidate value of one owner.

    kind: "code", "id", "name" or "record".
    prefix, suffix: the text around the value in the first record that holds it.
    space: where the value was drawn from; None where it was not drawn by us.
    copies: how often it stands in the owner's records when planted.
    owner: the user who holds all copies.
    slot: 0 or 1, which of the owner's two values this is.
    """

    kind: str
    prefix: str
    value: str
    suffix: str
    space: Space | None
    copies: int
    owner: str
    slot: int

    @property
    def text(self) -> str:
        return f"{self.prefix}{self.value}{self.suffix}"


@dataclass(frozen=True)
class Coins:
    """The coins. `present` holds planted users only; everybody else is always trained on."""

    present: dict[str, bool]
    slot: dict[str, int]

    def planted(self, secret: Secret) -> bool:
        """True where the secret stands in the training text."""
        return self.present[secret.owner] and self.slot[secret.owner] == secret.slot

    def twin(self, secret: Secret) -> bool:
        """True where it would stand there, had the owner's coin come up: the null control."""
        return not self.present[secret.owner] and self.slot[secret.owner] == secret.slot


@dataclass(frozen=True)
class Planting:
    """What is planted; a part of the plan, never a choice of attack.

    users: how many private users are decided by coins; the others are always trained on.
    id_copies: tiers of repetition, taken in turn by the planted users; 0: no id for this one.
    """

    users: int
    kinds: tuple[str, ...] = KINDS
    code_digits: int = 5
    code_copies: int = 4
    code_prefix: str = "My code is #"
    id_digits: int = 6
    id_copies: tuple[int, ...] = (1, 0, 4, 0, 16, 0)
    id_prefix: str = "My ID is #"
    name_copies: int = 4

    def __post_init__(self) -> None:
        unknown = sorted(set(self.kinds) - set(KINDS))
        if unknown:
            raise UsageError(f"planting.kinds: unknown {unknown[0]!r}; known: {', '.join(KINDS)}")
        if self.users < 2:
            raise UsageError(f"planting.users is {self.users}; coins need at least 2 users")
        if len(set(self.kinds)) < len(self.kinds):
            raise UsageError("planting.kinds: a kind is planted once")
        copies = (self.code_copies, self.name_copies, max(self.id_copies, default=0))
        if min(self.code_digits, self.id_digits, *copies) < 1 or min(self.id_copies) < 0:
            raise UsageError("planting: digits and copies must be at least 1")


@dataclass(frozen=True)
class Planted:
    """A corpus to train on, the secrets (candidates of every coin), and the coins."""

    corpus: Corpus
    secrets: tuple[Secret, ...]
    coins: Coins

    @property
    def trained_on(self) -> tuple[Record, ...]:
        """The private records that a defense may read."""
        return self.corpus.of("private")
