"""Power: what a given number of trials could have shown; printed beside every finding."""

from __future__ import annotations

import math

from audit.statistics import one_run
from audit.statistics.checks import check_confidence
from audit.statistics.clopper_pearson import one_sided_upper


def largest_epsilon(
    m: int, delta: float = 0.0, confidence: float = 0.95, *, r: int | None = None
) -> float:
    """Compute the one-run bound on ε (nats) if every guess is right: no run can show more.

    m coins, r guesses (default: all m). δ = 1e-5, 95 %: 3.49 for m = 100, 5.78 for 1,000.
    Raises ValueError as `one_run.epsilon_lower` does.
    """
    guesses = m if r is None else r
    return one_run.epsilon_lower(m, guesses, guesses, delta, confidence)


def smallest_rate(n: int, confidence: float = 0.95) -> float:
    """Compute the one-sided upper limit on a rate when none of n trials was a hit.

    1 - (1-confidence)^(1/n): 1.5 % for n = 200 at 95 %; 1.0 for n = 0. A rate above it would have
    given a hit with probability more than `confidence`. Raises ValueError if n < 0 or
    confidence is outside (0, 1).
    """
    return one_sided_upper(0, n, confidence)


def sample_size_for(limit: float, confidence: float = 0.95) -> int:
    """Compute the fewest trials for which no hit at all gives `smallest_rate(n) <= limit`.

    299 for 1 % at 95 %. Raises ValueError unless 0 < limit < 1 and 0 < confidence < 1.
    """
    if not 0.0 < limit < 1.0:
        raise ValueError(f"the limit on a rate must lie strictly between 0 and 1; got {limit}")
    check_confidence(confidence)
    return max(1, math.ceil(math.log1p(-confidence) / math.log1p(-limit)))
