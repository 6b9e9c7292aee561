"""Corpus BLEU (Papineni et al. 2002) as sacrebleu computes it (arXiv 1804.08771), with an interval.

The interval is a percentile bootstrap over segments (Koehn 2004): a segment's sufficient statistics
are resampled, not its text, so that nothing is tokenized twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu import __version__
from sacrebleu.metrics.bleu import BLEU

from audit.statistics.interval import Interval, IntervalKind, no_interval

ORDER = 4  # n-grams are counted up to this length
TOKENIZER, SMOOTHING = "13a", "exp"  # sacrebleu's own defaults, stated with every figure

Counts = NDArray[np.int64]  # (segments, 2 + 2·ORDER): see `counts`


def counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """Count the sufficient statistics of each segment, one reference each.

    Columns: words of the hypothesis, words of the reference, matched n-grams for n = 1 … ORDER,
    n-grams of the hypothesis for n = 1 … ORDER. Raises ValueError where the lengths differ.
    """
    metric = BLEU(max_ngram_order=ORDER, tokenize=TOKENIZER, smooth_method=SMOOTHING, force=True)
    scores = [
        metric.corpus_score([hypothesis], [[reference]])
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    rows = [[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores]
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2 + 2 * ORDER)


def score(total: Counts, order: int) -> float:
    """Compute BLEU up to n-grams of `order`, 0 to 100, of statistics summed over segments."""
    words, reference_words, *grams = (int(count) for count in total)
    result = BLEU.compute_bleu(
        grams[:order],
        grams[ORDER : ORDER + order],
        words,
        reference_words,
        smooth_method=SMOOTHING,
        max_ngram_order=order,
    )
    return float(result.score)


def bleu(
    segments: Counts,
    order: int,
    stream: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Compute corpus BLEU up to n-grams of `order` (1 to ORDER), 0 to 100, and its interval.

    segments: as `counts` returns them; n is their number. With one segment there is a value and no
    interval, with none neither. With few segments (below some 30) the bounds are too narrow;
    smoothing lifts figures of texts that share hardly any n-gram. Raises ValueError for an order
    that was not counted, confidence outside (0, 1) or fewer than 1 resample.
    """
    if not 1 <= order <= ORDER:
        raise ValueError(f"n-grams are counted up to {ORDER}; got order {order}")
    if not 0.0 < confidence < 1.0 or resamples < 1:
        raise ValueError(
            f"confidence must lie strictly between 0 and 1, with at least one resample; "
            f"got {confidence} and {resamples}"
        )
    n, metric = len(segments), _description(order)
    if n == 0:
        return no_interval(0, confidence, "no segments: nothing was measured")
    value = score(segments.sum(axis=0), order)
    if n == 1:
        return no_interval(1, confidence, f"{metric}; one segment: no interval", value)
    chosen = stream.integers(0, n, size=(resamples, n))
    drawn = segments[chosen].sum(axis=1)
    ranked = drawn[np.argsort(_scores(drawn, order), kind="stable")]
    last = int((1.0 - confidence) / 2.0 * (resamples - 1))
    low, high = (score(ranked[i], order) for i in (last, resamples - 1 - last))
    method = f"{metric}; percentile bootstrap over records, {resamples} resamples"
    return Interval(value, low, high, n, confidence, method, IntervalKind.BOOTSTRAP)


def _scores(totals: Counts, order: int) -> NDArray[np.float64]:
    """Compute `score` of each row, up to rounding, in a fraction of the time."""
    words, references = totals[:, 0], totals[:, 1]
    hit, of = totals[:, 2 : 2 + order], totals[:, 2 + ORDER : 2 + ORDER + order]
    halved = np.cumsum(hit == 0, axis=1)  # each order without a match counts half the one before
    some = (hit > 0).any(axis=1) & (of > 0).all(axis=1)  # so there are words, too
    hit, of, words = (np.where(some, each.T, 1).T for each in (hit, of, words))
    precisions = np.log(np.where(hit == 0, 0.5**halved, hit) / of).mean(axis=1)
    penalty = np.minimum(0.0, 1.0 - references / words)
    return np.where(some, 100.0 * np.exp(precisions + penalty), 0.0)


def _description(order: int) -> str:
    return (
        f"corpus BLEU-{order}, sacrebleu {__version__}, tokenizer {TOKENIZER}, "
        f"smoothing {SMOOTHING}, case kept"
    )
