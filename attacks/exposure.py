"""Canary exposure: ranks each planted secret among all values that it could have had.

Exposure = log₂|R| − log₂ rank, in bits (Carlini et al. 2019, arXiv 1802.08232), ranking by the
summed log-probability of the whole secret. Ranks are exact, from one pruned search of the tree of
candidates for all secrets of a space. If the budget stops the search, ranks have certified bounds.
Spaces without a tree are sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from attacks.search.prefix_tree import search, tree_of
from attacks.search.ranking import COLUMNS, counted, sampled
from attacks.search.reading import log_probs_of, read
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Ranks
from audit.core.predictor import Access, Predictor, affordable, continuation
from audit.core.rules import Rule, at_least
from audit.core.secret import Secret, Space

_SLACK = 0.1  # nats: two readings of a secret in bfloat16 can differ by this much


@dataclass(frozen=True)
class Exposure(Attack):
    """Ranks each id among all values of as many digits.

    budget: most prefixes to open in a session, over all spaces (10⁶ candidates have 111,111); at
        least 1.
    samples: candidates to sample if a rank cannot be counted exactly, for the estimate between its
        bounds and for spaces without a tree; at least 1.
    seconds: most seconds of search in a session, after which results differ between runs; default
        no limit; above 0.
    """

    budget: Annotated[int, at_least(1)] = 120_000
    samples: Annotated[int, at_least(1)] = 1000
    seconds: Annotated[float | None, Rule("above 0", lambda seconds: seconds > 0)] = None
    kinds = ("id",)
    access = Access.SCORE

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        unread = np.full(len(secrets), np.nan)
        return [Ranks(unread, **dict.fromkeys(COLUMNS, unread))]  # type: ignore[arg-type]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Read every secret first, then spend the remaining queries on searching and, in sessions
        with a budget, on sampling."""
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
        searched = (columns["exact"] >= 0).any()  # sampled ranks need scores only
        access = Access.DISTRIBUTION if searched else Access.SCORE
        return [Ranks(log_probs, access=access, **columns)]  # type: ignore[arg-type]

    def _ranked(
        self,
        predictor: Predictor,
        group: _Group,
        log_probs: np.ndarray,
        stream: np.random.Generator,
    ) -> dict[str, np.ndarray]:
        """Compute the columns of Ranks for secrets of one space."""
        size, tree = group.space.size, None
        tails = [continuation(predictor.tokenizer, group.prefix, v) for v in group.values]
        if predictor.readable >= Access.DISTRIBUTION:
            tree = tree_of(predictor.tokenizer, group.prefix, group.space)
        if tree is None or not all(map(tree.holds, tails)):
            drawn = self._references(predictor, group, stream, group.budget)
            return sampled(drawn, log_probs, size, stream)
        floor = float(log_probs.min()) - _SLACK
        budget, references, left = group.budget, None, predictor.remaining
        if left is not None:  # at most half for samples, the rest for the search
            references = self._references(predictor, group, stream, budget // 2)
            budget -= left - (predictor.remaining or 0)
        visited = search(predictor, tree, floor, budget, seconds=group.seconds)
        if references is None and len(visited.pending):
            references = self._references(predictor, group, stream, group.budget)
        return counted(visited, [*map(tree.symbols, tails)], log_probs, references, size)

    def _references(
        self, predictor: Predictor, group: _Group, stream: np.random.Generator, budget: int
    ) -> np.ndarray:
        """Read log-probabilities, nats, of answered candidates that are drawn like the secrets.

        budget: most queries, in sessions with a budget. Candidates that are drawn twice, or are
        secrets themselves, can only worsen the ranks of secrets.
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
    """Secrets of one space after one prefix, with their share of the budget."""

    prefix: str
    space: Space
    values: tuple[str, ...]
    budget: int
    seconds: float | None


def _spaces(secrets: Sequence[Secret]) -> dict[tuple[str, Space], list[int]]:
    """Group the indices of secrets by prefix and space."""
    groups: dict[tuple[str, Space], list[int]] = {}
    for i, secret in enumerate(secrets):
        if secret.space is not None:
            groups.setdefault((secret.prefix, secret.space), []).append(i)
    return groups
