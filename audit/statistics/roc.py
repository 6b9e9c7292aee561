"""Scores that separate members from controls: area under the ROC, its low end, accuracies.

Everywhere: members (n,) and controls (m,), scores, higher = more likely a member, ±inf allowed,
the candidates of one side independent draws. With too few there is neither a value nor an interval.
Raises ValueError for NaN, more than one row, or a confidence outside (0, 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics import bounded_mean, order_statistics
from audit.statistics.checks import check_confidence
from audit.statistics.clopper_pearson import clopper_pearson, one_sided_lower, one_sided_upper
from audit.statistics.interval import Interval, IntervalKind, no_interval

Row = NDArray[np.float64]

_TOO_FEW = "too few scores"


def auc(members: ArrayLike, controls: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute P[member above control] + P[tie]/2, and a two-sided interval for any distributions.

    (Derived.) The estimate is an average over matchings of k = min(n, m) pairs, each the mean of k
    independent values in [0, 1]: see `bounded_mean`. Measured coverage 97 to 100 %, lowest where
    one side is two-pointed. Newcombe's method 5 (2006), a third narrower, covers 61 % there and
    86 % for lognormal members against uniform controls (5 and 500).
    """
    inside, outside = _checked(members, controls, confidence)
    n, m = len(inside), len(outside)
    if not n or not m:
        return no_interval(n + m, confidence, _TOO_FEW)
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, "left") + np.searchsorted(ordered, inside, "right")
    area = float(below.sum()) / (2.0 * n * m)
    low, high = bounded_mean.bounds(area, min(n, m), confidence)
    kind = IntervalKind.BOUNDED_MEAN
    return Interval(area, low, high, n + m, confidence, bounded_mean.METHOD, kind, (n, m))


def tpr_at_fpr(
    members: ArrayLike, controls: ArrayLike, fpr: float, confidence: float = 0.95
) -> Interval:
    """Compute the share of members above the lowest threshold that at most `fpr` of controls pass.

    The interval is for the share above the threshold of all controls, of which these are a sample
    (after Hilgers, Methods of Information in Medicine 30, 1991): two of their order statistics hold
    it, and each end is Clopper and Pearson's for the members above one of them. Threshold and
    members err with probability α/4 each at each end. For any distributions, ties included. With
    fewer than ln(α/4)/ln(1 - fpr) controls, 437 at 1 %, the lower end is 0: the threshold may lie
    above all scores seen. No value with fewer than 1/fpr controls. Raises ValueError unless
    0 < fpr <= 1.
    """
    inside, outside = _checked(members, controls, confidence)
    if not 0.0 < fpr <= 1.0:
        raise ValueError(f"a false positive rate lies in (0, 1]; got {fpr}")
    n, m, needed = len(inside), len(outside), math.ceil(1.0 / fpr - 1e-9)
    if m < needed or not n:
        return no_interval(n, confidence, f"needs a member and at least {needed} controls")
    ordered, each = np.sort(outside), (1.0 - confidence) / 4.0
    loose, strict = order_statistics.upper_quantile(ordered, fpr, each)
    above, most, least = (
        int((inside > t).sum()) for t in (_threshold(ordered, fpr), loose, strict)
    )
    low, high = one_sided_lower(least, n, 1.0 - each), one_sided_upper(most, n, 1.0 - each)
    method = f"Clopper-Pearson over members, above order statistics of {m} controls"
    kind = IntervalKind.CLOPPER_PEARSON_AT_QUANTILE
    return Interval(above / n, low, high, n, confidence, method, kind, (n, m))


def curve(members: ArrayLike, controls: ArrayLike, points: int = 200) -> list[tuple[float, float]]:
    """Compute (FPR, TPR) steps to draw, from (0, TPR at no false positive) to (1, 1).

    The best TPR at each of about `points` FPRs, evenly spaced in log FPR; [] if a side is empty.
    """
    inside, outside = (np.sort(side) for side in _checked(members, controls, 0.95))
    if not len(inside) or not len(outside):
        return []
    wanted = (0.0, *np.geomspace(1.0 / len(outside), 1.0, points), 1.0)
    edges = sorted({_threshold(outside, fpr) for fpr in wanted}, reverse=True)
    shares = ((len(s) - np.searchsorted(s, edges, "right")) / len(s) for s in (outside, inside))
    return list(zip(*(share.tolist() for share in shares), strict=True))


def top_half_accuracy(
    members: ArrayLike, controls: ArrayLike, confidence: float = 0.95
) -> Interval:
    """Compute (TPR + TNR)/2 when the highest-scoring half of all candidates is called members.

    Ties at the boundary share what is left of the half. Chance is 1/2; with n = m it is the share
    of right calls, else it cannot reach 1. The interval is for this very threshold on new
    candidates, and conservative: DKW bands (Massart 1990) at α/2 around each side's distribution
    hold at all thresholds at once, also at the one these candidates chose.
    """
    inside, outside = _checked(members, controls, confidence)
    n, m = len(inside), len(outside)
    if not n or not m:
        return no_interval(n + m, confidence, _TOO_FEW)
    everyone = np.sort(np.concatenate([inside, outside]))
    edge = everyone[(n + m) // 2]
    share = ((n + m) / 2.0 - (everyone > edge).sum()) / (everyone == edge).sum()
    tpr, fpr = ((s > edge).mean() + share * (s == edge).mean() for s in (inside, outside))
    value = float(1.0 + tpr - fpr) / 2.0
    slack = math.sqrt(math.log(4.0 / (1.0 - confidence)) / 8.0) * (n**-0.5 + m**-0.5)
    low, high = max(0.0, value - slack), min(1.0, value + slack)
    method = "DKW bands on both sides, conservative"
    return Interval(value, low, high, n + m, confidence, method, IntervalKind.DKW_BAND, (n, m))


def refined_accuracy(
    members: ArrayLike,
    controls: ArrayLike,
    stream: np.random.Generator,
    share: float = 0.3,
    confidence: float = 0.95,
) -> Interval:
    """Compute the share of right calls among the most extreme scores; chance is 1/2.

    Equally many members and controls are drawn. One half of both sets two thresholds with share/2
    of its scores beyond each; the candidates of the other half beyond them are called, and n is
    their number. Raises ValueError unless 0 < share < 1.
    """
    inside, outside = _checked(members, controls, confidence)
    if not 0.0 < share < 1.0:
        raise ValueError(f"the share must lie strictly between 0 and 1; got {share}")
    half = min(len(inside), len(outside)) // 2
    if not half:
        return no_interval(0, confidence, _TOO_FEW)
    sides = [stream.permutation(side)[: 2 * half] for side in (inside, outside)]
    seen = np.sort(np.concatenate([side[:half] for side in sides]))
    edge = max(0, round(share * half) - 1)  # so share/2 of both sides' halves are beyond
    low, high = seen[edge], seen[-1 - edge]
    up = [int(((s[half:] >= high) & (s[half:] > low)).sum()) for s in sides]
    down = [int(((s[half:] <= low) & (s[half:] < high)).sum()) for s in sides]
    return clopper_pearson(up[0] + down[1], sum(up) + sum(down), confidence)


def _threshold(ordered: Row, fpr: float) -> float:
    """Find the least score that at most this share of the ordered controls lie above."""
    allowed = math.floor(fpr * len(ordered) + 1e-9)
    return float(ordered[-1 - allowed]) if allowed < len(ordered) else -math.inf


def _checked(members: ArrayLike, controls: ArrayLike, confidence: float) -> tuple[Row, Row]:
    check_confidence(confidence)
    inside, outside = np.asarray(members, dtype=float), np.asarray(controls, dtype=float)
    if inside.ndim != 1 or outside.ndim != 1 or np.isnan(inside).any() or np.isnan(outside).any():
        raise ValueError("scores must be one row a side, without NaN")
    least = np.finfo(float).min  # -inf leaves room for a threshold below all scores
    return np.maximum(inside, least), np.maximum(outside, least)
