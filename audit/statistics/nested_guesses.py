"""Empirical ε from several nested rules of guessing, tested together at one level.

A rule guesses about the coins of the r units that its order puts first; each rule's guesses are
among the next one's. Outcomes are ordered by the rule that shows most (its Clopper-Pearson limit at
an equal share of 5 %), and the p-value is that of this order (Buehler 1957): rules that agree are
paid for once. Theory: docs/methods/empirical-epsilon.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv, gammaln, xlog1py, xlogy

from audit.statistics import one_run
from audit.statistics.binomial import tail
from audit.statistics.checks import check_delta, check_guesses
from audit.statistics.search import last_negative

Guesses = Sequence[tuple[int, int]]  # (r, v) of each rule, from the fewest guesses to the most
_ERROR = 0.05  # shared by the limits that order the outcomes, whatever the level of a test
_TIE = 1e-9  # of a limit; what is so close counts as just as extreme
_WIDTH = 1e-9  # nats; how closely the bound approaches its supremum
_LEAST = 1e-300  # of a p-value, where its logarithm is taken


def check_nested(m: int, guesses: Guesses) -> None:
    """Refuse counts that no nested rules can have over m coins."""
    for r, v in guesses:
        check_guesses(m, r, v)
    for (r, v), (more, right) in pairwise(guesses):
        if not 0 <= right - v <= more - r:
            raise ValueError(f"{v} of {r} right are not among {right} of {more}")
    if not guesses:
        raise ValueError("a test needs at least one rule of guessing")


def critical_counts(guesses: Guesses) -> list[int]:
    """Find how many right guesses of each rule would show at least as much as was seen.

    r + 1 where not even r would. It depends on no ε, no δ and no level: all tests of these guesses
    have one region of rejection, so a smaller ε is rejected wherever a larger one is.
    """
    rules = len(guesses)
    seen = max(_limit(v, r, rules) for r, v in guesses) * (1.0 - _TIE)
    return [
        bisect_left(range(r + 1), seen, key=partial(_limit, r=r, rules=rules)) for r, _ in guesses
    ]


def p_value(epsilon: float, m: int, guesses: Guesses, delta: float = 0.0) -> float:
    """Bound the probability of guesses as good as these if the release is (epsilon, delta)-DP.

    m fair coins, one per protected unit with all its copies; rules fixed beforehand. epsilon in
    nats, in the relation that the coins decide. The smaller of two bounds on one event, "some rule
    has its critical count": with W_i independent, right with probability q = e^ε/(1+e^ε), their
    probability of it + mδ/2; and the sum of the rules' p-values by `one_run`. Rises with epsilon
    and with delta. Raises ValueError as `one_run.p_value` does, and for counts that are not nested.
    """
    check_nested(m, guesses)
    check_delta(delta)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon}")
    return _p_value(epsilon, m, _region(guesses), delta)


def epsilon_lower(m: int, guesses: Guesses, delta: float = 0.0, error: float = 0.05) -> float:
    """Find the largest ε (nats) that these guesses refute, at this delta: sup{ε : p < error}.

    Approached from below, by at most 1e-9; the true ε lies below it with probability at most
    `error`. 0.0 if nothing is shown. Raises ValueError as `p_value` does, and unless
    0 < error < 0.5.
    """
    check_nested(m, guesses)
    check_delta(delta)
    if not 0.0 < error < 0.5:
        raise ValueError(f"error must lie strictly between 0 and 0.5; got {error}")
    region = _region(guesses)

    def above(epsilon: float) -> float:
        """Compare the p-value with the level, as a logarithm: it spans hundreds of decades."""
        return math.log(max(_p_value(epsilon, m, region, delta), _LEAST) / error)

    return last_negative(above, 0.0, _WIDTH) if above(0.0) < 0.0 else 0.0


Region = tuple[tuple[int, int], ...]  # (r, c): c of r right are enough


def _region(guesses: Guesses) -> Region:
    """List the rules that can reach their critical counts."""
    counts = critical_counts(guesses)
    return tuple((r, c) for (r, _), c in zip(guesses, counts, strict=True) if c <= r)


def _p_value(epsilon: float, m: int, region: Region, delta: float) -> float:
    together = _reached(region, math.exp(-math.log1p(math.exp(-epsilon)))) + m * delta / 2.0
    if not delta:
        return min(1.0, together)
    return min(1.0, together, sum(one_run.p_value(epsilon, m, r, c, delta) for r, c in region))


def _reached(region: Region, right: float) -> float:
    """Compute P[some rule has its critical count], each guess right with this probability.

    Summed over the first rule that has it: every term is positive, so a tiny p-value is precise.
    """
    (r, c), *wider = region
    if not c:  # no guess was right: each outcome shows as much
        return 1.0
    reached = tail(c, r, right)
    short = _chances(c, r, right)  # of 0 … c − 1 right
    for more, enough in wider:
        added = more - r
        first = max(0, enough - added)  # with fewer, no number of the added guesses is enough
        needed = enough - np.arange(first, len(short))
        reached += float(short[first:] @ _tails(needed, added, right))
        step = _chances(min(added, enough) + 1, added, right)
        short = np.convolve(short, step)[:enough]
        r = more
    return reached


def _chances(counts: int, trials: int, right: float) -> NDArray[np.float64]:
    """Compute P[Bin(trials, right) = k] for k = 0 … counts − 1."""
    k = np.arange(counts)
    logs = _coefficients(trials)[:counts] + xlogy(k, right) + xlog1py(trials - k, -right)
    chances: NDArray[np.float64] = np.exp(logs)
    return chances


@lru_cache(maxsize=256)
def _coefficients(trials: int) -> NDArray[np.float64]:
    """Compute the logarithms of the binomial coefficients of this many trials."""
    k = np.arange(trials + 1)
    logs: NDArray[np.float64] = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    return logs


def _tails(needed: NDArray[np.int64], trials: int, right: float) -> NDArray[np.float64]:
    """Compute P[Bin(trials, right) >= needed] of each that is at most `trials`."""
    if not trials:
        return np.ones(len(needed))
    tails: NDArray[np.float64] = bdtrc(np.maximum(needed, 1) - 1, trials, right)
    return np.where(needed <= 0, 1.0, tails)


@lru_cache(maxsize=1 << 16)
def _limit(v: int, r: int, rules: int) -> float:
    """Compute the lower Clopper-Pearson limit on the share of right guesses, for v of r right."""
    return float(betaincinv(v, r - v + 1, _ERROR / rules)) if v else 0.0
