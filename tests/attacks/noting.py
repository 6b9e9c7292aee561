"""Sessions that note what they are asked, and bigram models whose ranks are counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Answer
from audit.core.secret import Space

MANY = settings(
    max_examples=settings().max_examples // 2,  # each runs a model
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
FIVE = Space((tuple("01234"),) * 3)  # 125 candidates, for the fixture's default alphabet
RECIPES = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0, 3.0]), st.booleans())


@dataclass
class Fake:
    """A session that notes what it is asked, and may have a budget, STOP, or little to read.

    asked: each text that was scored, and whether with moments. calls: how often scores were read.
    contexts: of every distribution, in order. batches: how many were read together.
    off: nats by which everything is less likely where distributions are read.
    """

    inner: OpenSession
    remaining: int | None = None
    stops_after: int = 10**9
    readable: Access = Access.DISTRIBUTION
    access: Access = Access.DISTRIBUTION
    off: float = 0.0
    queries: int = 0
    calls: int = 0
    asked: list[tuple[str, bool]] = field(default_factory=list)
    contexts: list[tuple[int, ...]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def score(
        self, prefixes: Sequence[Any], continuations: Sequence[Any], moments: bool = False
    ) -> list[Answer]:
        assert self.readable >= Access.SCORE
        self.calls += 1
        answers = []
        for answer in self.inner.score(prefixes, continuations, moments):
            answered = self._charge(len(answer.tokens))
            log_probs = np.where(np.arange(len(answer.tokens)) < answered, answer.log_probs, 0.0)
            answers.append(replace(answer, answered=answered, log_probs=log_probs))
        for head, tail in zip(prefixes, continuations, strict=True):
            assert len(head) + len(tail) <= self.max_length + 1
            self.asked.append((self.tokenizer.decode(tail), moments))
        return answers

    def distribution(
        self, contexts: Sequence[Sequence[int]], choices: Sequence[int]
    ) -> tuple[np.ndarray, int]:
        assert self.readable >= Access.DISTRIBUTION
        rows, _ = self.inner.distribution(contexts, choices)
        answered = self._charge(len(contexts))
        rows[answered:] = 0.0  # not the release's: whoever reads it finds certain secrets
        self.contexts += map(tuple, contexts)
        self.batches.append(len(contexts))
        return rows - self.off, answered

    def _charge(self, queries: int) -> int:
        """How many of so many queries are answered by the release."""
        answered = min(max(0, self.stops_after - self.queries), queries)
        self.queries += queries
        if self.remaining is not None:
            self.remaining -= queries
            assert self.remaining >= 0
        return answered


def opened(model: Any, **how: Any) -> Fake:
    return Fake(OpenSession(model, np.random.default_rng(0)), **how)


def along(model: Any, path: Sequence[int]) -> float:
    """The log-probability of the tokens after the first."""
    return math.fsum(model.log_table[a, b] for a, b in itertools.pairwise(path))


def made(bigram: Any, recipe: tuple[int, float, bool]) -> Any:
    """The model of a seed and a spread; tied: many candidates are exactly as likely."""
    seed, spread, tied = recipe
    return with_ties(bigram(seed, spread)) if tied else bigram(seed, spread)


def with_ties(model: Any) -> Any:
    """The same with logits that are whole numbers."""
    logits = np.round(1.5 * model.log_table)
    return of_logits(model, logits)


def of_logits(like: Any, logits: np.ndarray) -> Any:
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return replace(like, log_table=table)
