"""Exposure of a planted secret (Carlini et al. 2019, arXiv 1802.08232), and the ε it implies.

The step from rank to ε is derived here, not in the paper. A secret is uniform over a space R and
is one protected unit; its rank is among all |R| candidates by likelihood, ties against the secret,
so at most t candidates have rank <= t.
- add-or-remove: without the unit the release is independent of the secret, so P(rank <= t) is at
  most t/|R|; with it, at most e^ε t/|R| + δ.
- replace: let S be the set of candidates with rank <= t and P_s the law of a release trained on s.
  Sum P_s(s in S, s' not in S) <= e^ε P_s'(s in S, s' not in S) + δ over all ordered pairs s != s';
  with A = mean_s P_s(s in S) and |S| <= t this gives (|R|-t) A <= e^ε t (1-A) + (|R|-1) δ.
- one of c copies: removing or replacing all c, one unit after the other, is (cε, δ')-DP with
  δ' = δ (e^{cε}-1)/(e^ε-1).
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics.checks import check_confidence, check_delta
from audit.statistics.search import largest

Relation = Literal["add_or_remove", "replace"]

_WIDTH = 1e-12  # nats


def exposure_bits(space: float, rank: float) -> float:
    """Compute log2(space) - log2(rank), in bits; higher = the model prefers the secret more.

    space: number of candidates, the secret included. rank: 1 = the most likely of them; mid-ranks
    for ties are fractional. Runs from 0 to log2(space). Raises ValueError unless
    1 <= rank <= space.
    """
    _check_rank(space, rank)
    return math.log2(space) - math.log2(rank)


def sampled_exposure_bits(scores: ArrayLike, references: ArrayLike) -> NDArray[np.float64]:
    """Estimate exposure in bits from n sampled candidates: log2 n - log2(m + 1).

    scores: (secrets,), references: (n,), both -log p (lower = more likely, any log unit); m counts
    the references at or below a secret's score, so ties go against it. Returns (secrets,), each
    between log2(n/(n+1)) and log2 n. As published, for display: an ε takes space n + 1 and rank
    m + 1 instead. Raises ValueError for no references or NaN.
    """
    secrets = np.asarray(scores, dtype=np.float64)
    sampled = np.sort(np.asarray(references, dtype=np.float64))
    if sampled.ndim != 1 or len(sampled) == 0:
        raise ValueError(f"references must be a non-empty row of scores; got {sampled.shape}")
    if np.isnan(secrets).any() or np.isnan(sampled).any():
        raise ValueError("scores must not be NaN")
    as_likely = np.searchsorted(sampled, secrets, side="right")
    return np.asarray(np.log2(len(sampled)) - np.log2(as_likely + 1.0))


def null_exposure_bits(space: int) -> float:
    """Compute the mean exposure in bits of a secret the model has never seen (uniform rank).

    log2|R| - log2(|R|!)/|R|: 1.396 for 100 candidates, tending to log2 e = 1.4427. Raises
    ValueError unless space >= 1.
    """
    _check_rank(space, 1)
    return math.log2(space) - math.lgamma(space + 1.0) / (space * math.log(2.0))


def rank_p_value(
    epsilon: float,
    space: float,
    rank: float,
    delta: float = 0.0,
    relation: Relation = "add_or_remove",
    copies: int = 1,
) -> float:
    """Bound the probability of this rank or a better one if each unit is (epsilon, delta)-DP.

    epsilon in nats, in the given relation; space, rank as in `exposure_bits` (rank: ties against
    the secret); copies: how many units hold the secret. Small = the claim does not explain the
    rank. Rises with epsilon, delta, rank and copies. Raises ValueError for values out of range.
    """
    _check_claim(space, rank, delta, relation, copies)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon}")
    group = copies * epsilon
    if group > 700.0:  # e^group overflows; no rank out of a countable space refutes this
        return 1.0
    grown = float(copies) if epsilon == 0.0 else math.expm1(group) / math.expm1(epsilon)
    if relation == "add_or_remove":
        p = math.exp(group) * rank / space + grown * delta
    else:
        inside = math.exp(group) * rank
        p = (inside + (space - 1.0) * grown * delta) / (inside + space - rank)
    return min(1.0, p)


def epsilon_from_rank(
    space: float,
    rank: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    relation: Relation = "add_or_remove",
    copies: int = 1,
) -> float:
    """Compute the largest ε (nats, per unit) that a secret of this rank refutes.

    sup{ε : rank_p_value(ε) < 1 - confidence}; for one copy ln((α-δ)|R|/t) under add-or-remove and
    ln(((|R|-t)α-(|R|-1)δ)/(t(1-α))) under replace, α = 1 - confidence; for several, approached
    from below by bisection. 0.0 if nothing is shown. The rank must be exact, or of n + 1 with n
    sampled references distinct from the secret; never extrapolated from a fit. Raises ValueError
    for values out of range.
    """
    _check_claim(space, rank, delta, relation, copies)
    check_confidence(confidence)
    level = 1.0 - confidence
    one_copy = max(0.0, _without_growth(space, rank, delta, level, relation))
    if copies == 1:
        return one_copy

    def refuted(epsilon: float) -> bool:
        return rank_p_value(epsilon, space, rank, delta, relation, copies) < level

    # more copies only make a rank easier to explain
    return largest(refuted, 0.0, one_copy, _WIDTH) if refuted(0.0) else 0.0


def epsilon_from_ranks(
    space: float,
    ranks: ArrayLike,
    delta: float = 0.0,
    confidence: float = 0.95,
    relation: Relation = "add_or_remove",
    copies: int = 1,
) -> float:
    """Compute the ε (nats) that several secrets refute together: by their lower median, at α/2.

    ranks: (secrets,), values drawn independently and with replacement from the same space, ranks
    dependent in any way. If the lower median is <= t, at least half the ranks are, and by Markov's
    inequality that has at most twice the probability of one rank doing so. One secret is tested at
    α itself. Otherwise as `epsilon_from_rank`. Raises ValueError if there is no rank.
    """
    row = np.sort(np.asarray(ranks, dtype=np.float64))
    if row.ndim != 1 or len(row) == 0:
        raise ValueError(f"at least one rank is needed; got shape {row.shape}")
    for extreme in (row[0], row[-1]):
        _check_rank(space, float(extreme))
    if len(row) == 1:
        return epsilon_from_rank(space, float(row[0]), delta, confidence, relation, copies)
    lower_median = float(row[(len(row) - 1) // 2])
    stricter = 1.0 - (1.0 - confidence) / 2.0
    return epsilon_from_rank(space, lower_median, delta, stricter, relation, copies)


def _without_growth(
    space: float, rank: float, delta: float, level: float, relation: Relation
) -> float:
    """Compute the bound for one copy; -inf if not even delta alone is refuted."""
    if relation == "add_or_remove":
        odds = (level - delta) * space / rank
    else:
        odds = ((space - rank) * level - (space - 1.0) * delta) / (rank * (1.0 - level))
    return math.log(odds) if odds > 0.0 else -math.inf


def _check_rank(space: float, rank: float) -> None:
    if not 1.0 <= rank <= space:
        raise ValueError(f"rank must lie between 1 and the space; got rank {rank} of {space}")


def _check_claim(space: float, rank: float, delta: float, relation: Relation, copies: int) -> None:
    _check_rank(space, rank)
    check_delta(delta)
    if relation not in get_args(Relation):
        raise ValueError(f"relation must be one of {get_args(Relation)}; got {relation!r}")
    if copies < 1:
        raise ValueError(f"a secret has at least one copy; got {copies}")
