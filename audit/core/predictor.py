"""What an attack meets: a tokenizer, a declared access, and answers to queries.

Anything with these few members is a Predictor: a model, a served endpoint, or a dozen-line fake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Protocol

import numpy as np

from audit.core.errors import UsageError
from audit.core.spans import token_mask

Tokens = Sequence[int]
# a text that tokenizers which are not the same read differently
PROBE = "My code is #40917, my ID is #730265. My name is Ann Lee — ключ, 鍵, naïve?"


class Access(IntEnum):
    """What a release gives away: each level contains the ones before it."""

    GENERATE = 1
    SCORE = 2
    DISTRIBUTION = 3

    @property
    def word(self) -> str:
        """The level as results.json writes it."""
        return self.name.lower()


class Tokenizer(Protocol):
    """Text to token ids and back. `start` opens every record; `stop` closes it."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Tokens) -> str: ...


class MarkingTokenizer(Tokenizer, Protocol):
    """A tokenizer that also knows where its tokens end."""

    def ends(self, text: str) -> list[int]:
        """Characters of the text up to and with each token of `encode(text)`."""


def record_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """start + text + stop: a record as models are trained on it."""
    return [tokenizer.start, *tokenizer.encode(text), tokenizer.stop]


def record_marks(
    tokenizer: MarkingTokenizer, text: str, spans: Sequence[tuple[int, int]]
) -> list[bool]:
    """Which of `record_tokens` are private; start and stop never are."""
    return [False, *token_mask(tokenizer.ends(text), spans), False]


def continuation(tokenizer: Tokenizer, prefix: str, value: str) -> list[int]:
    """The tokens of `value` as they follow `prefix` in a text.

    Raises UsageError where the tokenizer merges the two or does not give `value` back.
    """
    head = tokenizer.encode(prefix)
    whole = tokenizer.encode(prefix + value)
    tail = whole[len(head) :]
    if whole[: len(head)] != head or tokenizer.decode(tail) != value:
        raise UsageError(
            f"the tokenizer cannot express {value!r} after {prefix!r}; "
            "use one that keeps digits, or another planting prefix"
        )
    return tail


def affordable(lengths: Sequence[int], budget: int | None) -> int:
    """How many of the first texts of so many queries fit into a budget; None: unlimited."""
    if budget is None:
        return len(lengths)
    return sum(total <= budget for total in accumulate(lengths))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one list of consecutive queries.

    tokens: the released tokens, or the continuation that was scored.
    log_probs: shape (len(tokens),), nats: log-probability of each token under the distribution
        it was answered from (after STOP: the public model's).
    top1: shape (len(tokens),), bool: whether the token is the most likely one.
    answered: how many of the tokens were answered by the release before it stopped.
    moments: shape (2, len(tokens)), or None where not asked for: mean and standard deviation of
        the next token's log-probability under the distribution itself, nats.
    log_caps: shape (len(tokens),), nats, or None: upper bounds on log_probs that a paper reports
        in their place.
    """

    tokens: tuple[int, ...]
    log_probs: np.ndarray
    top1: np.ndarray
    answered: int
    moments: np.ndarray | None = None
    log_caps: np.ndarray | None = None


class Predictor(Protocol):
    """One open session with a release."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def access(self) -> Access:
        """What the release gives away."""

    @property
    def readable(self) -> Access:
        """What its auditor can read of it: `access`, or more. Beyond `access` is beyond the
        release: such a reading is no evidence on its guarantee."""

    @property
    def max_length(self) -> int:
        """Tokens of context it can read."""

    @property
    def remaining(self) -> int | None:
        """Queries left in the session's public budget; None: unlimited."""

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """`length` sampled tokens after each prompt; one query a token, in list order."""

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        """The log-probabilities of each continuation; only its tokens are queries."""

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        """(log-probability of each of `choices` as the next token after each context, answered).

        Shape (len(contexts), len(choices)), nats; one query a context, in list order. answered:
        how many contexts, from the first on, were answered before STOP.
        """
