"""An attack's view of a release: its tokenizer, its access level, and answers to queries.

Any class with these members is a Predictor: a model, a served endpoint, or a fake of a dozen lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import accumulate
from typing import Protocol, runtime_checkable

import numpy as np

from audit.core.errors import UsageError
from audit.core.spans import Span, merged

Tokens = Sequence[int]
# a text that different tokenizers encode differently
PROBE = "My code is #40917, my ID is #730265. My name is Ann Lee — ключ, 鍵, naïve?"


class Access(IntEnum):
    """The level of access to a release. Each level includes those before it."""

    GENERATE = 1
    SCORE = 2
    DISTRIBUTION = 3

    @property
    def word(self) -> str:
        """The level as written in results.json."""
        return self.name.lower()


class Given(Enum):
    """The part of a generated text that was given."""

    TEXT = "text"  # all of it
    STOPPED = "stopped"  # a server ended it early: with the model's end, or at a text of its own
    CUT = "cut"  # a server gave less than was requested
    WITHHELD = "withheld"  # a server gave no text, or not as one


class Tokenizer(Protocol):
    """Converts text to token ids and back. `start` opens every record, `stop` closes it."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Tokens) -> str: ...


class MarkingTokenizer(Tokenizer, Protocol):
    """A tokenizer that also locates its tokens in the text."""

    def ends(self, text: str) -> list[int]:
        """Return the number of characters up to the end of each token of `encode(text)`."""


@runtime_checkable
class ListingTokenizer(Tokenizer, Protocol):
    """A tokenizer that also lists its vocabulary."""

    def vocabulary(self) -> Collection[str]:
        """List every word that can be a token, with any marks of the vocabulary (Ġ, ##, ▁)."""


def is_chat(tokenizer: Tokenizer) -> bool:
    """Return whether a text may go on after `stop`, which then closes every turn: its `goes_on`."""
    return bool(getattr(tokenizer, "goes_on", False))


def record_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """Encode a record as models are trained on it: start + text + stop."""
    return [tokenizer.start, *tokenizer.encode(text), tokenizer.stop]


def before(stop: int, tokens: Tokens) -> Tokens:
    """Cut tokens at the first `stop`."""
    return tokens[: tokens.index(stop)] if stop in tokens else tokens


def token_mask(ends: Sequence[int], spans: Iterable[Span]) -> list[bool]:
    """Decide which tokens are private: those whose characters overlap a span.

    ends: number of characters up to the end of each token; they never decrease.
    A token without characters may hold bytes of a character that the tokenizer split, so it is
    private if a span contains or touches its place.
    """
    values = np.array(merged(spans), dtype=int).reshape(-1, 2)
    to = np.asarray(ends, dtype=int)
    start = np.concatenate([[0], to[:-1]])
    if (to < start).any():
        at = int(np.argmax(to < start))
        raise ValueError(f"ends of tokens decrease from {start[at]} to {to[at]}")
    lows, highs = values.T
    empty = start == to
    # first value that ends after the token's start (for an empty token: not before it)
    first = np.where(empty, np.searchsorted(highs, start), np.searchsorted(highs, start, "right"))
    begins = np.append(lows, np.iinfo(int).max)[first]
    mask: list[bool] = (begins < to + empty).tolist()
    return mask


def record_marks(
    tokenizer: MarkingTokenizer, text: str, spans: Sequence[tuple[int, int]]
) -> list[bool]:
    """Decide which of `record_tokens` are private; start and stop never are."""
    return [False, *token_mask(tokenizer.ends(text), spans), False]


def continuation(tokenizer: Tokenizer, prefix: str, value: str) -> list[int]:
    """Encode `value` as it follows `prefix` in a text.

    Raises UsageError if the tokenizer merges the two or does not decode to `value` again.
    """
    head = tokenizer.encode(prefix)
    whole = tokenizer.encode(prefix + value)
    tail = whole[len(head) :]
    if whole[: len(head)] != head or tokenizer.decode(tail) != value:
        raise UsageError(
            f"the tokenizer cannot express {value!r} after {prefix!r}; "
            "use one that keeps digits apart, or words that end in a sign such as # (--template)"
        )
    return tail


def affordable(lengths: Sequence[int], budget: int | None) -> int:
    """Count the leading texts, of these numbers of queries, that fit a budget; None: no limit."""
    if budget is None:
        return len(lengths)
    return sum(total <= budget for total in accumulate(lengths))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one list of consecutive queries.

    tokens: the released tokens, or the scored continuation.
    log_probs: shape (len(tokens),), nats: log-probability of each token under the distribution
        that answered it (after STOP, the public model's).
    top1: shape (len(tokens),), bool: whether the token is the most likely one.
    answered: number of leading tokens that the release answered before it stopped.
    moments: shape (2, len(tokens)), nats: mean and standard deviation of log p(z), z ~ p, for the
        distribution p of each token; None unless requested.
    log_caps: shape (len(tokens),), nats: upper bounds on log_probs that a paper reports instead;
        None for none.
    given: how much of a generated text a server gave.
    more: texts beside it that whoever asked could read, such as a reasoning.
    """

    tokens: tuple[int, ...]
    log_probs: np.ndarray
    top1: np.ndarray
    answered: int
    moments: np.ndarray | None = None
    log_caps: np.ndarray | None = None
    given: Given = Given.TEXT
    more: tuple[str, ...] = ()


@runtime_checkable
class Published(Protocol):
    """A session with a model that may stand for published texts."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that are published in place of the model; () where it is itself released."""


class Predictor(Protocol):
    """An open session with a release."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def access(self) -> Access:
        """The level of access to the release."""

    @property
    def readable(self) -> Access:
        """The access of its auditor: `access`, or more. Evidence from more than `access` does not
        test the guarantee.
        """

    @property
    def max_length(self) -> int:
        """Most tokens of context."""

    @property
    def remaining(self) -> int | None:
        """Queries left in the session's public budget; None for no limit."""

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        """Sample `length` tokens after each prompt; one query a token, in list order."""

    def score(
        self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens], moments: bool = False
    ) -> list[Answer]:
        """Return log-probabilities, nats, of each continuation; only its tokens are queries."""

    def distribution(
        self, contexts: Sequence[Tokens], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        """Return log-probabilities of `choices` as the next token, and the number of answers.

        log-probabilities: shape (len(contexts), len(choices)), nats; one query a context, in list
            order.
        answered: number of leading contexts that were answered before STOP.
        """
