"""Bootstrap interval of a ratio of sums over records (Efron 1979; percentile method)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics.checks import check_confidence
from audit.statistics.interval import Interval, IntervalKind, no_interval

_CELLS_AT_ONCE = 1 << 20  # resampled records held in memory together: about 24 MB

Transform = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def bootstrap_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    stream: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
    transform: Transform | None = None,
) -> Interval:
    """Compute transform(sum numerators / sum denominators), and its interval over records.

    numerators: (records,), such as summed NLL in nats; may hold +inf. denominators: (records,),
    such as token counts. transform: elementwise, such as `np.exp` (perplexity = exp of nats per
    token); None means the ratio itself. Records with nothing counted (0 over 0) are left out of the
    ratio and of n. With one remaining record there is a value and no interval (low and high None);
    with none, neither. The bounds are resampled values, never interpolated, so +inf is handled;
    with few records (below some 30) they are too narrow.
    Raises ValueError for shapes that differ, NaN, -inf, a negative or infinite denominator, a
    numerator over denominator 0, confidence outside (0, 1) or fewer than 1 resample.
    """
    above, below = _checked(numerators, denominators)
    check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"at least one resample is needed; got {resamples}")
    n = len(above)
    if n == 0:
        return no_interval(0, confidence, "no records: nothing was measured")
    value = float(_ratio(above.sum(keepdims=True), below.sum(keepdims=True), transform)[0])
    if n == 1:
        return no_interval(1, confidence, "one record: no interval", value)

    rows = max(1, _CELLS_AT_ONCE // n)
    ratios = np.empty(resamples)
    for start in range(0, resamples, rows):
        stop = min(start + rows, resamples)
        chosen = stream.integers(0, n, size=(stop - start, n))
        ratios[start:stop] = _ratio(above[chosen].sum(axis=1), below[chosen].sum(axis=1), transform)
    ratios.sort()
    tail = (1.0 - confidence) / 2.0
    low = int(np.floor(tail * (resamples - 1)))
    method = f"percentile bootstrap over records, {resamples} resamples"
    bounds = float(ratios[low]), float(ratios[resamples - 1 - low])
    return Interval(value, *bounds, n, confidence, method, IntervalKind.BOOTSTRAP)


def _ratio(
    above: NDArray[np.float64], below: NDArray[np.float64], transform: Transform | None
) -> NDArray[np.float64]:
    ratio = above / below
    if transform is None:
        return ratio
    with np.errstate(over="ignore"):  # exp of a huge mean is inf, and is reported so
        return transform(ratio)


def _checked(
    numerators: ArrayLike, denominators: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    above = np.asarray(numerators, dtype=np.float64)
    below = np.asarray(denominators, dtype=np.float64)
    if above.ndim != 1 or above.shape != below.shape:
        raise ValueError(
            f"one numerator and one denominator per record; got {above.shape} and {below.shape}"
        )
    if np.isnan(above).any() or np.isneginf(above).any():
        raise ValueError("numerators must be finite or +inf")
    if not np.isfinite(below).all() or (below < 0).any():
        raise ValueError("denominators must be finite and not negative")
    if (above[below == 0] != 0).any():
        raise ValueError("a record with denominator 0 must have numerator 0")
    return above[below > 0], below[below > 0]
