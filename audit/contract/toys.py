"""Toys on which plugins are checked: a bigram model, a journal, a corpus and secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from audit.core.attack import Knowledge, Neighbour, Shadow
from audit.core.corpus import Corpus, Population, Record
from audit.core.language_model import OpenSession
from audit.core.law import Law
from audit.core.predictor import Access, Answer, Tokenizer, Tokens
from audit.core.randomness import stream
from audit.core.secret import OWN, Coins, Secret, Space, digits
from audit.core.terms import Relation
from audit.policies.digits import Digits

ALPHABET = "^0123456789abcdefghijklmnopqrstuvwxyz#"
UNSEEN = "unseen"  # a word of every held-out text, and of no other
OWNERS = ("ann", "ben", "cat", "dan", "eve", "fay")
COINS = Coins({owner: i % 2 == 0 for i, owner in enumerate(OWNERS)}, dict.fromkeys(OWNERS, 0))
_FIRST, _LAST = (*OWNERS, "gus", "hal"), ("lee", "orr", "poe")


@dataclass(frozen=True)
class CharacterTokenizer:
    """Makes each character of `alphabet` a token; token 0 opens and closes records."""

    alphabet: str = ALPHABET
    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [self.alphabet.index(character) for character in text]

    def ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))

    def decode(self, tokens: Tokens) -> str:
        return "".join(self.alphabet[token] for token in tokens)


@dataclass(frozen=True)
class Bigram:
    """A language model that looks at the last token only: log_table[last, next], nats."""

    log_table: np.ndarray
    tokenizer: CharacterTokenizer
    max_length: int = 64

    @property
    def vocabulary(self) -> int:
        return len(self.log_table)

    def cursor(self, prompts: Sequence[Tokens]) -> BigramCursor:
        return BigramCursor(self, [prompt[-1] for prompt in prompts])

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        pairs = zip(texts, starts, strict=True)
        return self.after([text[i - 1] for text, first in pairs for i in range(first, len(text))])

    def after(self, last: Sequence[int]) -> torch.Tensor:
        """Return log-pmfs (n, V) after each of n tokens, nats."""
        return torch.tensor(self.log_table[list(last)])


@dataclass
class BigramCursor:
    """State of texts, of which only the last token counts."""

    model: Bigram
    last: list[int]

    def log_pmf(self) -> torch.Tensor:
        return self.model.after(self.last)

    def append(self, tokens: torch.Tensor) -> None:
        self.last = tokens.tolist()


def bigram(seed: int, spread: float = 1.0, vocabulary: int = len(ALPHABET)) -> Bigram:
    """Make a random model; a larger spread makes it more certain."""
    logits = spread * stream(seed, "toy").normal(size=(vocabulary, vocabulary))
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return Bigram(table, CharacterTokenizer(ALPHABET[:vocabulary]))


@dataclass
class ToySession:
    """A session with a toy that declares an access, a readable access and a budget."""

    inner: OpenSession
    access: Access
    readable: Access
    limit: int | None
    queries: int = 0

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def max_length(self) -> int:
        return self.inner.max_length

    @property
    def remaining(self) -> int | None:
        return None if self.limit is None else self.limit - self.queries

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        self.queries += len(prompts) * length
        return self.inner.generate(prompts, length)

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        self.queries += sum(map(len, continuations))
        return self.inner.score(prefixes, continuations, moments)

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        self.queries += len(contexts)
        return self.inner.distribution(contexts, choices)

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        self.queries += sum(map(len, continuations))
        texts = [[*head, *tail] for head, tail in zip(prefixes, continuations, strict=True)]
        return Law(self.inner.model.log_pmfs(texts, list(map(len, prefixes))).numpy())


@dataclass
class Memory:
    """A journal in memory. rows: what a killed process may have written."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: bytes = b"a key of the folder's own"

    def previous(self) -> Sequence[dict[str, Any]]:
        return list(self.rows)

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows += rows


def session(access: Access, readable: Access, limit: int | None) -> ToySession:
    """Open a session with a toy of strong preferences; the same draws each time."""
    return ToySession(_open(1, 3.0), access, readable, limit)


def knowledge(shadows: int, secrets: Sequence[Secret], public: bool) -> Knowledge:
    """Make the attacker's knowledge; public: whether the public model is known."""
    tossed = stream(0, "toy", "shadows").random((shadows, len(secrets))) < 0.5
    return Knowledge(
        public=_open(2, 1.0) if public else None,
        texts=("good#morning", "see#you"),
        names=("guspoe", "hallee", "gusorr"),
        shadows=tuple(Shadow(_open(3 + j, 2.0), present) for j, present in enumerate(tossed)),
        stream=stream(0, "toy", "attacker"),
        neighbours=tuple(Neighbour(_neighbour(i), i, Relation.REMOVED) for i in range(2)),
        order=2.0,
        corpus=tuple(
            Record(user, _note(user, j), split="private")
            for user in (*OWNERS, "ida", "jon")
            for j in range(3)
        ),
    )


def _note(user: str, number: int) -> str:
    """Write a record of words that no other record has."""
    return "#".join(f"{user}{number}{word:02}" for word in range(8))


def _neighbour(part: int) -> ToySession:
    return ToySession(_open(10 + part, 3.0), Access.GENERATE, Access.DISTRIBUTION, None)


def _open(seed: int, spread: float) -> OpenSession:
    return OpenSession(bigram(seed, spread), stream(seed, "toy", "session"))


def secrets(kinds: Sequence[str]) -> tuple[Secret, ...]:
    """Make both candidates of every owner, with distinct values."""
    spaces = {"code": digits(3), "id": digits(2), "name": Space((_FIRST, _LAST)), "record": None}
    sign, number = (("#",),), digits(3).symbols
    spaces |= {
        "email": Space((_FIRST, *sign, _LAST)),
        "phone": Space((*number, *sign, *number)),
        "key": Space((("s",), ("k",), *number)),
        "pattern": Space((("e",), *number, ("x", "y"))),
    }
    made = []
    for i, owner in enumerate(OWNERS):
        for slot in (0, 1):
            n = 2 * i + slot
            values = {"code": f"{n:03}", "id": f"{n:02}", "name": _FIRST[i] + _LAST[slot]}
            values["record"] = f"hello#{i}iam{owner}"
            values["email"] = f"{_FIRST[i]}#{_LAST[slot]}"
            values |= {"phone": f"555#{n:03}", "key": f"sk{n:03}", "pattern": f"e{n:03}x"}
            own = tuple(_note(owner, j) for j in range(1 + i % 3))
            made.append(Secret(OWN, "", "##".join(own), "", None, len(own), owner, slot, own))
            for kind, value in values.items():
                prefix = "" if kind == "record" else f"my{kind}is#"
                made.append(Secret(kind, prefix, value, "", spaces[kind], 1 + i % 2, owner, slot))
    return tuple(secret for secret in made if secret.kind in kinds)


def corpus() -> Corpus:
    """Make 16 private, 4 held-out and 6 public users of two short records; digits are private."""
    records = (
        *_records("private", 16, lambda i, j: f"I am caller {i}, my code is #{137 * i + j:04}."),
        *_records("heldout", 4, lambda i, j: f"This is {UNSEEN}, caller {i}, good day {j}."),
        *_records("public", 6, lambda i, j: f"Thank you for calling desk {i}, floor {j}."),
    )
    return Corpus("toy", records, public_size=Population(users=16, records=32))


def _records(split: str, users: int, say: Callable[[int, int], str]) -> tuple[Record, ...]:
    texts = [(f"{split} {i}", say(i, j)) for i in range(users) for j in (0, 1)]
    marked = [tuple(Digits()(text)) if split == "private" else () for _, text in texts]
    return tuple(
        Record(user, text, split=split, private=spans)
        for (user, text), spans in zip(texts, marked, strict=True)
    )
