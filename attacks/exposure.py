"""Canary exposure: how far up does a planted secret stand among all it could have been?

Exposure = log₂|R| − log₂ rank (Carlini et al. 2019, arXiv 1802.08232), the rank by the summed
log-probability of the whole secret. Ranks are counted exactly, by a pruned search of the tree of
candidates that all secrets of a space share; where a budget stops it, they are certified between
two bounds. Spaces without a tree are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks._prefix_tree import search, tree_of
from attacks._ranking import COLUMNS, counted, sampled
from attacks._reading import log_probs_of, read
from audit.core.attack import Attack, Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Ranks
from audit.core.predictor import Access, Predictor, Tokenizer, affordable, continuation
from audit.core.secret import Secret, Space

_SLACK = 0.1  # nats: bfloat16 may read a secret so much less likely on its second reading


@dataclass(frozen=True)
class Exposure(Attack):
    """Ranks each id among all that its digits allow.

    budget: prefixes opened at most in one session, over all spaces; 10⁶ candidates have 111,111.
    samples: candidates drawn where a rank could not be counted: for the estimate between certified
        bounds, and for spaces without a tree.
    seconds: stops the search after so long; another run will not stop at the same place.
    """

    budget: int = 120_000
    samples: int = 1000
    seconds: float | None = None
    kinds = ("id",)
    access = Access.SCORE

    def __post_init__(self) -> None:
        for name in ("budget", "samples"):
            if getattr(self, name) < 1:
                raise UsageError(
                    f"exposure: {name} is {getattr(self, name)}; it must be at least 1"
                )
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"exposure: seconds is {self.seconds}; it must be above 0")

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        values = [continuation(tokenizer, s.prefix, s.value) for s in secrets]
        longest = max(map(len, values), default=0)
        return sum(map(len, values)) + self.budget + len(_spaces(secrets)) * self.samples * longest

    def trials(self) -> int:
        return 1

    def tests(self, secrets: Sequence[Secret]) -> int:
        return len({(s.copies, s.space.size) for s in secrets if s.space is not None})

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Reads every secret first; with the queries that are left it searches, and, where queries
        are counted, samples."""
        log_probs = read(predictor, secrets)
        columns = {name: np.full(len(secrets), np.nan) for name in COLUMNS}
        spaces = _spaces(secrets)
        left = self.budget if predictor.remaining is None else predictor.remaining
        budget = min(self.budget, left) // max(1, len(spaces))
        seconds = None if self.seconds is None else self.seconds / max(1, len(spaces))
        for (prefix, space), members in spaces.items():
            known = [i for i in members if not np.isnan(log_probs[i])]
            if not known:
                continue
            values = tuple(secrets[i].value for i in known)
            group = _Group(prefix, space, values, budget, seconds)
            ranked = self._ranked(predictor, group, log_probs[known], knowledge.stream)
            for name, column in ranked.items():
                columns[name][known] = column
        searched = (columns["exact"] >= 0).any()  # sampled ranks are read from scores alone
        access = Access.DISTRIBUTION if searched else Access.SCORE
        return [Ranks(log_probs, access=access, **columns)]  # type: ignore[arg-type]

    def _ranked(
        self,
        predictor: Predictor,
        group: _Group,
        log_probs: np.ndarray,
        stream: np.random.Generator,
    ) -> dict[str, np.ndarray]:
        """The columns of Ranks for secrets of one space."""
        size, tree = group.space.size, None
        tails = [continuation(predictor.tokenizer, group.prefix, v) for v in group.values]
        if predictor.readable >= Access.DISTRIBUTION:
            tree = tree_of(predictor.tokenizer, group.prefix, group.space)
        if tree is None or not all(map(tree.holds, tails)):
            drawn = self._references(predictor, group, stream, group.budget)
            return sampled(drawn, log_probs, size, stream)
        floor = float(log_probs.min()) - _SLACK
        budget, references, left = group.budget, None, predictor.remaining
        if left is not None:  # one half for the guess, what it leaves for the search
            references = self._references(predictor, group, stream, budget // 2)
            budget -= left - (predictor.remaining or 0)
        found = search(predictor, tree, floor, budget, seconds=group.seconds)
        if references is None and len(found.pending):
            references = self._references(predictor, group, stream, group.budget)
        return counted(found, [*map(tree.symbols, tails)], log_probs, references, size)

    def _references(
        self, predictor: Predictor, group: _Group, stream: np.random.Generator, budget: int
    ) -> np.ndarray:
        """log-probabilities of candidates drawn like the secrets, those that were answered; where
        queries are counted, no more than so many of them pay for.

        One that is drawn twice, or is itself a secret, only counts against the secrets.
        """
        if predictor.readable < Access.SCORE:
            return np.zeros(0)
        drawn = [group.space.draw(stream) for _ in range(self.samples)]
        if predictor.remaining is not None:
            lengths = [len(continuation(predictor.tokenizer, group.prefix, v)) for v in drawn]
            drawn = drawn[: affordable(lengths, min(budget, predictor.remaining))]
        log_probs = log_probs_of(predictor, [group.prefix] * len(drawn), drawn)
        return np.asarray(log_probs[~np.isnan(log_probs)])


@dataclass(frozen=True)
class _Group:
    """Secrets of one space, after one prefix, and their share of the budget."""

    prefix: str
    space: Space
    values: tuple[str, ...]
    budget: int
    seconds: float | None


def _spaces(secrets: Sequence[Secret]) -> dict[tuple[str, Space], list[int]]:
    """Places of the secrets of each prefix and space."""
    groups: dict[tuple[str, Space], list[int]] = {}
    for i, secret in enumerate(secrets):
        if secret.space is not None:
            groups.setdefault((secret.prefix, secret.space), []).append(i)
    return groups
