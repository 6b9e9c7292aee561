"""An attack scores secrets. It never sees a coin, a guarantee or a defense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.predictor import Access, Predictor, Tokenizer
from audit.secrets import Secret

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Hits:
    """Generations, each compared with every secret.

    found: shape (n,), int: index of the secret that generation i gave exactly; −1: none.
    repeats: how often each different generation came; sums to n.
    texts: the n generations, as text; not kept once they are written, masked, to samples.jsonl.
    stronger: whether they rest on probabilities that the release does not give.
    """

    found: np.ndarray
    repeats: tuple[int, ...]
    texts: tuple[str, ...] = ()
    access: Access = Access.GENERATE
    stronger: bool = False


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """The probability that one generation is exactly this secret.

    log_probs: shape (s,), nats, ≤ 0, one for each secret; higher = more likely to be given away.
        NaN where the session's budget did not reach (chosen before any query, blind to coins).
    """

    log_probs: np.ndarray
    access: Access = Access.SCORE


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one attack saw in one session, before any coin is joined."""

    hits: Hits | None
    likelihoods: Likelihoods | None


class Attack(ABC):
    """A frozen dataclass: its fields are its parameters. `kinds` are the secrets it goes for."""

    kinds: tuple[str, ...]
    access: Access

    @abstractmethod
    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """How many queries a full run asks; for the dry run and the cost."""

    @abstractmethod
    def trials(self) -> int:
        """How many trials its main rate has when every query is answered; for the power."""

    @abstractmethod
    def run(self, predictor: Predictor, secrets: Sequence[Secret]) -> Evidence:
        """Attacks one session. Asks no more than `predictor.remaining`."""
