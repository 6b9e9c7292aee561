"""Secrets that are planted into a corpus, and, in separate objects, the coins that select them.

Every planted user has two candidate values of each kind. A fair coin decides whether the user is
trained on, with all copies of all secrets. A second, independent coin decides which of the two
values the user's secrets take. Attacks see the candidates; only statistics see the coins.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.wording import WORDED

KINDS = (*WORDED, "record")
DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class Space:
    """A set of values to draw from uniformly: one symbol of `symbols[i]` at each place i."""

    symbols: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """The number of values |R|."""
        return math.prod(len(place) for place in self.symbols)

    def draw(self, generator: np.random.Generator) -> str:
        """Draws a uniform value."""
        return "".join(place[int(generator.integers(len(place)))] for place in self.symbols)


def digits(length: int) -> Space:
    """Makes the space of all codes of `length` decimal digits."""
    return Space((tuple(DIGITS),) * length)


@dataclass(frozen=True, slots=True)
class Secret:
    """One candidate value of one owner.

    kind: "code", "id", "name" or "record".
    prefix, suffix: text around the value in the first record that contains it.
    space: space from which the value was drawn; None if it was not drawn here.
    copies: number of copies in the owner's records when planted.
    owner: user whose records contain all copies.
    slot: 0 or 1: which of the owner's two values this is.
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
    """The coins of each planted user; all remaining users are always trained on.

    present: whether the user is trained on. slot: which of the two values is planted.
    """

    present: dict[str, bool]
    slot: dict[str, int]

    def planted(self, secret: Secret) -> bool:
        """Whether the secret is in the training text."""
        return self.present[secret.owner] and self.slot[secret.owner] == secret.slot

    def twin(self, secret: Secret) -> bool:
        """Whether it would be there if the owner's coin had come up: the null control."""
        return not self.present[secret.owner] and self.slot[secret.owner] == secret.slot


@dataclass(frozen=True)
class Planting:
    """Settings of planting; part of the plan, independent of attacks.

    users: number of private users with coins, at least 2; the rest are always trained on.
    invented: number of invented users with coins, added to the corpus where it has few users of its
        own; their records are secrets and nothing else.
    kinds: kinds of secrets to plant.
    *_digits: length of drawn values.
    *_prefix: text before the value; None: drawn by the run's seed. *_suffix: text after it.
    *_copies: copies of each secret in the owner's records; id_copies are taken in turn by the
        planted users, 0 for no id.
    """

    users: int
    invented: int = 0
    kinds: tuple[str, ...] = KINDS
    code_digits: int = 5
    code_copies: int = 4
    code_prefix: str | None = None
    code_suffix: str = "."
    id_digits: int = 6
    id_copies: tuple[int, ...] = (1, 0, 4, 0, 16, 0)
    id_prefix: str | None = None
    id_suffix: str = "."
    name_copies: int = 4
    name_prefix: str | None = None
    name_suffix: str = "."

    def __post_init__(self) -> None:
        unknown = sorted(set(self.kinds) - set(KINDS))
        if unknown:
            raise UsageError(f"planting.kinds: unknown {unknown[0]!r}; known: {', '.join(KINDS)}")
        if self.users < 2:
            raise UsageError(f"planting.users is {self.users}; coins need at least 2 users")
        if self.invented < 0:
            raise UsageError(f"planting.invented is {self.invented}; it must be at least 0")
        if len(set(self.kinds)) < len(self.kinds):
            raise UsageError("planting.kinds: a kind is listed twice; list each kind once")
        copies = (self.code_copies, self.name_copies, max(self.id_copies, default=0))
        if min(self.code_digits, self.id_digits, *copies) < 1 or min(self.id_copies) < 0:
            raise UsageError("planting: digits and copies must be at least 1")

    @property
    def document(self) -> dict[str, Any]:
        """The settings as a plan shows them, less what older plans lack and this one does not use.

        So a plan that is older than a setting keeps its hash.
        """
        unused = {f"{kind}_suffix" for kind in WORDED if getattr(self, f"{kind}_suffix") == "."}
        unused |= set() if self.invented else {"invented"}
        unused |= set() if "name" in self.kinds else {"name_prefix", "name_suffix"}
        return {key: value for key, value in asdict(self).items() if key not in unused}


@dataclass(frozen=True)
class Planted:
    """A corpus to train on, the candidate secrets, and the coins."""

    corpus: Corpus
    secrets: tuple[Secret, ...]
    coins: Coins

    @property
    def trained_on(self) -> tuple[Record, ...]:
        """The private records, which a defense may read."""
        return self.corpus.of("private")
