"""The exact binomial tail: how often chance alone does as well."""

from __future__ import annotations

from scipy.special import betainc


def p_value(k: int, n: int, chance: float) -> float:
    """P[Bin(n, chance) >= k], one-sided.

    Small = k hits of n are more than chance explains. Computed as an incomplete beta function, so
    that it keeps its relative precision for tiny chances. Raises ValueError unless 0 <= k <= n and
    0 <= chance <= 1.
    """
    if not 0 <= k <= n:
        raise ValueError(f"hits and trials must satisfy 0 <= k <= n; got k={k}, n={n}")
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"a chance lies between 0 and 1; got {chance}")
    if k == 0:
        return 1.0

    return float(betainc(k, n - k + 1, chance))
