"""Blind baseline: can members be separated from controls by their texts alone, without any model?

Candidates that differ in themselves make every membership attack look good (Das et al. 2024, arXiv
2406.16201; Meeus et al. 2024, arXiv 2406.17975).
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from audit.statistics.interval import Interval, IntervalKind, no_interval

_MOST = 2000  # texts: their kernel is the cost
_FOLDS = 5
_RIDGE = 1.0  # in units of the kernel's mean diagonal
_HASHED = {1: 256, 2: 1024, 3: 2048}  # columns for characters, pairs, triples
_ENDS = 256

Table = NDArray[np.float64]
Folds = NDArray[np.int64]


def blind_auc(
    texts_in: Sequence[str],
    texts_out: Sequence[str],
    stream: np.random.Generator,
    confidence: float = 0.95,
    permutations: int = 199,
) -> tuple[Interval, float]:
    """Compute the cross-validated AUC of a bag-of-characters classifier, and the p-value of 1/2.

    texts_in, texts_out: members and controls, one text per protected unit; of more than 2,000 in
    all, some are drawn; n is their number. Ridge regression, stratified folds; scores are compared
    only within a held-out fold, so that for exchangeable texts the AUC is 1/2 on average at any
    sizes. The p-value is two-sided; labels are permuted inside the folds, which is exact: p <= x
    with probability at most x. The interval's half-width is how far permuted AUCs stray from 1/2,
    so it excludes 1/2 if and only if p <= 1 - confidence; away from 1/2 it is approximate. Pairs of
    similar texts, one on each side, are not exchangeable and push the AUC below 1/2. With fewer
    than two texts on a side there is no value, and p is 1. Raises ValueError unless 0 < confidence
    < 1 and permutations >= 1.
    """
    if not 0.0 < confidence < 1.0 or permutations < 1:
        raise ValueError(f"got confidence {confidence} and {permutations} permutations")
    inside, outside = _drawn(texts_in, texts_out, stream)
    n, m = len(inside), len(outside)
    if min(n, m) < 2:
        return no_interval(n + m, confidence, "needs two texts on each side"), 1.0
    fold = folds_of(n, m, stream)
    areas = areas_in_folds(
        kernel_of(_blocks(inside + outside), n + m), n, fold, permutations, stream
    )
    stray = np.abs(areas - 0.5)
    as_far = int((stray >= stray[0] - 1e-12).sum())  # the true labels, first, are one of them
    rank = math.floor((1.0 - confidence) * len(stray) + 1e-9)
    reach = float(np.sort(stray[1:])[-rank]) + 1e-12 if rank else 0.5
    low, high = max(0.0, float(areas[0]) - reach), min(1.0, float(areas[0]) + reach)
    method = f"{int(fold.max()) + 1}-fold ridge on characters, {permutations} label permutations"
    kind = IntervalKind.PERMUTATION
    interval = Interval(float(areas[0]), low, high, n + m, confidence, method, kind)
    return interval, as_far / len(stray)


def folds_of(n: int, m: int, stream: np.random.Generator) -> Folds:
    """Draw the fold of each of n + m units, (n + m,): of both sides alike, at most five."""
    folds = min(_FOLDS, n, m)
    return np.concatenate([stream.permutation(np.arange(side) % folds) for side in (n, m)])


def areas_in_folds(
    kernel: Table, n: int, fold: Folds, times: int, stream: np.random.Generator
) -> Table:
    """Compute (1 + times,) AUCs within folds: of the true labels, then of labels permuted in folds.

    kernel: (units, units); the first n units are inside. fold: (units,), each with both sides.
    Every permutation is cross-validated anew.
    """
    labels = np.repeat([1.0, 0.0], [n, len(fold) - n])
    columns = np.tile(labels[:, None], (1, 1 + times))
    for k in np.unique(fold):
        columns[fold == k, 1:] = stream.permuted(columns[fold == k, 1:], axis=0)
    right = np.zeros(1 + times)
    pairs = 0.0
    for k in np.unique(fold):
        out = fold == k
        ridge = kernel[np.ix_(~out, ~out)] + _RIDGE * np.eye(int((~out).sum()))
        targets = columns[~out] - labels[~out].mean()
        scores = kernel[np.ix_(out, ~out)] @ cho_solve(cho_factor(ridge), targets)
        rounded = np.round(scores, 9)  # equal texts tie despite rounding
        ranks = scipy.stats.rankdata(rounded, axis=0)
        members = labels[out].sum()
        right += (ranks * columns[out]).sum(axis=0) - members * (members + 1.0) / 2.0
        pairs += members * (out.sum() - members)
    return right / pairs


def kernel_of(blocks: Iterable[Table], units: int) -> Table:
    """Compute a similarity kernel (units, units), mean diagonal 1, all feature blocks weighing the
    same. blocks: (units, features) each."""
    total, used = np.zeros((units, units)), 0
    for block in blocks:
        centred = block - block.mean(axis=0)
        gram = centred @ centred.T
        size = float(np.trace(gram)) / units
        if size > 1e-12:  # else all units have the same features in this block
            total += gram / size
            used += 1
    return total / max(1, used)


def _blocks(texts: Sequence[str]) -> Iterator[Table]:
    for size, width in _HASHED.items():
        block = np.zeros((len(texts), width))
        for row, text in enumerate(texts):
            grams = Counter(text[i : i + size] for i in range(len(text) - size + 1))
            for gram, count in grams.items():
                block[row, _column(gram, width)] += count
        yield np.sqrt(block / np.maximum(1.0, block.sum(axis=1, keepdims=True)))
    for ends in ([text[:1] for text in texts], [text[-1:] for text in texts]):
        yield np.eye(_ENDS)[[_column(end, _ENDS) for end in ends]]
    yield np.log1p([[float(len(text))] for text in texts])


def _column(gram: str, width: int) -> int:
    return zlib.crc32(gram.encode("utf-8", "surrogatepass")) % width


def _drawn(
    texts_in: Sequence[str], texts_out: Sequence[str], stream: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Draw at most _MOST texts of both sides together, fewer of the larger side first."""
    sizes = len(texts_in), len(texts_out)
    keep = [min(a, max(_MOST // 2, _MOST - b)) for a, b in (sizes, sizes[::-1])]
    inside = [texts_in[i] for i in np.sort(stream.permutation(sizes[0])[: keep[0]])]
    return inside, [texts_out[i] for i in np.sort(stream.permutation(sizes[1])[: keep[1]])]
