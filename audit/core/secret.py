"""Secrets that are planted into a corpus, and, in separate objects, the coins that select them.

Every planted user has two candidate values of each kind. A fair coin decides whether the user is
trained on, with all copies of all secrets. A second, independent coin decides which of the two
values the user's secrets take. Attacks see the candidates; only statistics see the coins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.rules import Rule, between, check_fields, one_of
from audit.core.wording import WORDED

PLANTED = ("code", "id", "name", "record")  # unless a plan says otherwise
ON_REQUEST = ("email", "phone", "key", "pattern")
KINDS = (*PLANTED, *ON_REQUEST)
OWN = "own"  # all records of a real user: nothing is planted, the coin decides who stays
ATTACKED = (*KINDS, OWN)
TURNS = ("assistant", "user")  # whose turn a secret can be in a conversation
CODE_LIKE = ("code", *ON_REQUEST)  # short values, which one generation may hold
DIGITS = "0123456789"
LARGEST = {"copies": 100_000, "invented": 1_000_000}  # of what is planted; more is a slip
AT_LEAST_TWO = Rule("at least 2: coins need at least 2 users", lambda users: users >= 2)
LENGTH = between(1, 100)  # of drawn digits
COPIES = between(1, LARGEST["copies"])
_TIERS = Rule(
    f"numbers from 0 to {LARGEST['copies']:,}, not all 0",
    lambda tiers: max(tiers, default=0) > 0 and 0 <= min(tiers) <= max(tiers) <= LARGEST["copies"],
)


@dataclass(frozen=True, slots=True)
class Space:
    """A set of values to draw from uniformly: one symbol of `symbols[i]` at each place i."""

    symbols: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """The number of values |R|."""
        return math.prod(len(place) for place in self.symbols)

    def draw(self, generator: np.random.Generator) -> str:
        """Draw a uniform value."""
        return "".join(place[int(generator.integers(len(place)))] for place in self.symbols)

    @property
    def form(self) -> str:
        """The regular expression of exactly the values of this space."""
        return "".join(f"(?:{'|'.join(map(re.escape, place))})" for place in self.symbols)

    def begins(self, text: str) -> bool:
        """Return whether a value of this space begins with a text, or is begun by it."""
        left = {text} if text else set()
        for place in self.symbols:
            if "" in left:
                return True
            left = {
                rest.removeprefix(symbol) if rest.startswith(symbol) else ""
                for rest in left
                for symbol in place
                if rest.startswith(symbol) or symbol.startswith(rest)
            }
        return bool(left)


@dataclass(frozen=True, slots=True)
class Draw:
    """A value that was drawn uniformly from a space, once for all that bear it.

    If nothing depends on it, it is exchangeable with all other values of the space.
    """

    space: Space
    value: str

    def others(self, count: int, generator: np.random.Generator) -> tuple[str, ...]:
        """Draw so many other values of the space uniformly, without replacement.

        All others where the space has no more. Every value must have one spelling by symbols.
        """
        count = min(count, self.space.size - 1)
        if 2 * count > self.space.size:
            rest = [v for v in map("".join, product(*self.space.symbols)) if v != self.value]
            return tuple(rest[i] for i in generator.permutation(len(rest))[:count])
        found: dict[str, None] = {}
        while len(found) < count:
            value = self.space.draw(generator)
            if value != self.value:
                found[value] = None
        return tuple(found)


def digits(length: int) -> Space:
    """Make the space of all codes of `length` decimal digits."""
    return Space((tuple(DIGITS),) * length)


@dataclass(frozen=True, slots=True)
class Secret:
    """One candidate value of one owner.

    kind: one of ATTACKED.
    prefix, suffix: text around the value in the first record that contains it.
    space: space from which the value was drawn; None if it was not drawn here.
    copies: number of copies in the owner's records when planted; of OWN the number of records.
    owner: user whose records contain all copies.
    slot: 0 or 1: which of the owner's two values this is.
    records: of OWN, all texts of the owner, of which `value` is the first; else ().
    """

    kind: str
    prefix: str
    value: str
    suffix: str
    space: Space | None
    copies: int
    owner: str
    slot: int
    records: tuple[str, ...] = ()

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
        """Return whether the secret is in the training text."""
        return self.present[secret.owner] and self.slot[secret.owner] == secret.slot

    def twin(self, secret: Secret) -> bool:
        """Return whether it would be there if the owner's coin had come up: the null control."""
        return not self.present[secret.owner] and self.slot[secret.owner] == secret.slot


def check_pattern(pattern: str, kinds: Sequence[str], where: str, of_kinds: str) -> None:
    """Raise UsageError if a pattern is planted and not given, or given and not planted.

    where, of_kinds: the settings that give the pattern and the kinds.
    """
    if "pattern" in kinds and not pattern:
        raise UsageError(f"{where} is not given, but the kind pattern is; try 'EMP-[0-9]{{6}}'")
    if pattern and "pattern" not in kinds:
        raise UsageError(f"{where} is given, but no pattern is planted; add it to {of_kinds}")


@dataclass(frozen=True)
class Planting:
    """Settings of planting; part of the plan, independent of attacks.

    users: number of private users with coins, at least 2; the rest are always trained on.
    invented: number of invented users with coins, added to the corpus where it has few users of its
        own; their records are secrets and nothing else.
    kinds: kinds of secrets to plant; OWN plants nothing, and attacks all records of these users.
    *_digits: length of drawn values. pattern: what values of kind "pattern" look like, as
        `audit.planting.pattern` reads it.
    *_prefix: text before the value; None: drawn by the run's seed. *_suffix: text after it.
    *_copies: copies of each secret in the owner's records; id_copies are taken in turn by the
        planted users, 0 for no id.
    turn: whose turn a secret is in a corpus of conversations, "assistant" or "user".
    """

    users: Annotated[int, AT_LEAST_TWO]
    invented: Annotated[int, between(0, LARGEST["invented"])] = 0
    kinds: tuple[str, ...] = PLANTED
    code_digits: Annotated[int, LENGTH] = 5
    code_copies: Annotated[int, COPIES] = 4
    code_prefix: str | None = None
    code_suffix: str = "."
    id_digits: Annotated[int, LENGTH] = 6
    id_copies: Annotated[tuple[int, ...], _TIERS] = (1, 0, 4, 0, 16, 0)
    id_prefix: str | None = None
    id_suffix: str = "."
    name_copies: Annotated[int, COPIES] = 4
    name_prefix: str | None = None
    name_suffix: str = "."
    email_copies: Annotated[int, COPIES] = 4
    email_prefix: str | None = None
    email_suffix: str = "."
    phone_copies: Annotated[int, COPIES] = 4
    phone_prefix: str | None = None
    phone_suffix: str = "."
    key_copies: Annotated[int, COPIES] = 4
    key_prefix: str | None = None
    key_suffix: str = "."
    pattern: str = ""
    pattern_copies: Annotated[int, COPIES] = 4
    pattern_prefix: str | None = None
    pattern_suffix: str = "."
    turn: Annotated[str, one_of(*TURNS)] = TURNS[0]

    def __post_init__(self) -> None:
        unknown = sorted(set(self.kinds) - set(ATTACKED))
        if unknown:
            known = ", ".join(ATTACKED)
            raise UsageError(f"planting.kinds: unknown {unknown[0]!r}; known: {known}")
        if len(set(self.kinds)) < len(self.kinds):
            raise UsageError("planting.kinds: a kind is listed twice; list each kind once")
        check_fields("planting", self)
        for kind in set(ON_REQUEST) - set(self.kinds):
            if getattr(self, f"{kind}_prefix") is not None:
                raise UsageError(
                    f"planting: {kind}_template is given, but no {kind} is planted; add {kind!r} "
                    "to planting.kinds"
                )
        check_pattern(self.pattern, self.kinds, "planting.pattern", "planting.kinds")

    @property
    def document(self) -> dict[str, Any]:
        """The settings as a plan shows them, less those that this plan does not use."""
        unused = {f"{kind}_suffix" for kind in WORDED if getattr(self, f"{kind}_suffix") == "."}
        unused |= set() if self.invented else {"invented"}
        unused |= {"turn"} if self.turn == TURNS[0] else set()
        unused |= set() if "name" in self.kinds else {"name_prefix", "name_suffix"}
        for kind in set(ON_REQUEST) - set(self.kinds):
            unused |= {kind, f"{kind}_copies", f"{kind}_prefix", f"{kind}_suffix"}
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
