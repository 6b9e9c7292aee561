"""Corpus BLEU (Papineni et al. 2002) as sacrebleu computes it (arXiv 1804.08771), with an interval.

The interval is a percentile bootstrap over segments (Koehn 2004): a segment's sufficient statistics
are drawn, not its text, so that nothing is tokenized twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu import __version__
from sacrebleu.metrics.bleu import BLEU

from audit.statistics.interval import Interval

ORDER = 4  # n-grams are counted up to this length
TOKENIZER, SMOOTHING = "13a", "exp"  # sacrebleu's own defaults, stated with every figure

Counts = NDArray[np.int64]  # (segments, 2 + 2·ORDER): both lengths, n-grams matched, n-grams said


def counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """The sufficient statistics of each segment, one reference each.

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
    """BLEU up to n-grams of `order`, 0 to 100, of statistics summed over segments."""
    said, meant, *grams = (int(count) for count in total)
    matched, counted = grams[:order], grams[ORDER : ORDER + order]
    return float(
        BLEU.compute_bleu(
            matched, counted, said, meant, smooth_method=SMOOTHING, max_ngram_order=order
        ).score
    )


def bleu(
    segments: Counts,
    order: int,
    stream: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Corpus BLEU up to n-grams of `order` (1 to ORDER), 0 to 100; n is the number of segments.

    segments: as `counts` gives them. With one segment there is a value and no interval, with none
    neither. With few segments (below some 30) bounds are too narrow; smoothing lifts figures of
    texts that share hardly any n-gram. Raises ValueError for an order that was not counted,
    confidence outside (0, 1) or fewer than 1 resample.
    """
    if not 1 <= order <= ORDER:
        raise ValueError(f"n-grams are counted up to {ORDER}; got order {order}")
    if not 0.0 < confidence < 1.0 or resamples < 1:
        raise ValueError(
            f"confidence must lie strictly between 0 and 1, with at least one resample; "
            f"got {confidence} and {resamples}"
        )
    n, told = len(segments), _named(order)
    if n == 0:
        return Interval(None, None, None, 0, confidence, "no segments: nothing was measured")
    value = score(segments.sum(axis=0), order)
    if n == 1:
        return Interval(value, None, None, 1, confidence, f"{told}; one segment: no interval")
    chosen = stream.integers(0, n, size=(resamples, n))
    drawn = sorted(score(segments[rows].sum(axis=0), order) for rows in chosen)
    low = int((1.0 - confidence) / 2.0 * (resamples - 1))
    method = f"{told}; percentile bootstrap over records, {resamples} resamples"
    return Interval(value, drawn[low], drawn[resamples - 1 - low], n, confidence, method)


def _named(order: int) -> str:
    return (
        f"corpus BLEU-{order}, sacrebleu {__version__}, tokenizer {TOKENIZER}, "
        f"smoothing {SMOOTHING}, case kept"
    )
