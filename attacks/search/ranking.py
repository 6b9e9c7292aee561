"""Computes ranks of secrets: counted by a search of the tree, or estimated from samples."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from attacks.search.prefix_tree import Visited
from audit.statistics import skew_normal

TOLERANCE = 1e-4  # nats: precision of log-probabilities in float32; closer ones are ties
COLUMNS = ("better", "worst", "middle", "spaces", "whole", "exact", "fitted")


def counted(
    visited: Visited,
    symbols: Sequence[Sequence[int]],
    log_probs: np.ndarray,
    references: np.ndarray | None,
    size: int,
) -> dict[str, np.ndarray]:
    """Compute the columns of Ranks for secrets (s,) of a space with a tree.

    A rank is exact if no unopened prefix is as likely as the secret. Else it has certified bounds,
    and a sampled estimate for figures, or NaN without samples. Values of two owners and pruned
    values get the worst rank.
    """
    at = visited.places(symbols)
    # values from the search if possible, so secrets and rivals have the same rounding errors
    own = log_probs
    if len(visited.log_probs):
        own = np.where(at >= 0, visited.log_probs[at], log_probs)
    values = [tuple(row) for row in symbols]
    distinct = dict(zip(values, range(len(values)), strict=True))
    seen = np.array([own[i] for i in distinct.values() if at[i] >= 0])
    spaces = np.full(len(own), float(size - len(distinct) + 1))
    bounds = [visited.ranks(float(p), TOLERANCE) for p in own]
    whole = np.array([min(high, size) for _, high in bounds], dtype=float)
    better = np.array([low for low, _ in bounds]) - [(seen > p + TOLERANCE).sum() for p in own]
    as_good = np.array([(seen >= p - TOLERANCE).sum() for p in own]) - (at >= 0)
    worst = np.clip(whole - as_good, better, spaces)
    times = Counter(values)
    twice = np.array([times[value] > 1 for value in values])
    exact = own - TOLERANCE > float(visited.pending.max(initial=-np.inf))
    exact |= not len(visited.pending)
    lost = exact & (at < 0)  # likely when read but pruned: the model's precision is too low
    guess = np.full(len(own), np.nan)
    if references is not None and len(references):
        guess = np.clip(spaces * _share(references, own), better, worst)
    middle = np.where(exact, (better + worst) / 2, guess)
    worst = np.where(twice | lost, spaces, worst)
    whole = np.where(lost, size, whole)
    return _columns(better, worst, middle, spaces, whole, exact & ~lost, np.nan)


def sampled(
    references: np.ndarray, log_probs: np.ndarray, size: int, stream: np.random.Generator
) -> dict[str, np.ndarray]:
    """Compute the columns of Ranks for secrets (s,) of a space without a tree.

    The rank is m + 1 of n + 1 if m of n sampled references are as likely. `fitted` extrapolates
    for figures if the fit is good.
    """
    n = len(references)
    if not n:
        nothing = np.full(len(log_probs), np.nan)
        return _columns(*[nothing] * len(COLUMNS))
    above = np.array([(references > p + TOLERANCE).sum() for p in log_probs], dtype=float)
    as_good = np.array([(references >= p - TOLERANCE).sum() for p in log_probs], dtype=float)
    fitted = np.full(len(log_probs), np.nan)
    with contextlib.suppress(ValueError):  # too few references, or all equal
        law = skew_normal.fit(-references, stream)
        if law.acceptable:
            fitted = skew_normal.exposure_bits(law, -log_probs, size)
    middle = 1 + (above + as_good) / 2
    return _columns(1 + above, 1 + as_good, middle, n + 1, 1 + as_good, np.nan, fitted)


def _share(references: np.ndarray, log_probs: np.ndarray) -> np.ndarray:
    above = np.array([(references >= p).sum() for p in log_probs])
    return np.asarray((above + 0.5) / (len(references) + 1))


def _columns(*columns: np.ndarray | float) -> dict[str, np.ndarray]:
    """Name the columns and broadcast all to the length of the first, an array."""
    first = np.asarray(columns[0], dtype=float)
    return {
        name: np.broadcast_to(np.asarray(column, dtype=float), first.shape)
        for name, column in zip(COLUMNS, columns, strict=True)
    }
