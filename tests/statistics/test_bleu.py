"""Corpus BLEU against sacrebleu's own way through whole texts, and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from audit.statistics.bleu import ORDER, _scores, bleu, counts, score

words = st.lists(st.sampled_from(["a", "b", "c", "it's", "1,000.5", "(x)"]), max_size=9)
text = words.map(" ".join)
pairs = st.lists(st.tuples(text, text), min_size=1, max_size=5)

SAID = ["the flight leaves at nine", "my name is Ann", "we go to the sea on Monday", "yes"]
MEANT = ["the flight leaves at ten", "my name is Bo", "we go to the sea on Friday .", "no , thanks"]


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(pairs, st.integers(1, ORDER))
def test_value_is_sacrebleu_of_the_whole_texts(texts: list[tuple[str, str]], n: int) -> None:
    said, meant = (list(side) for side in zip(*texts, strict=True))
    whole = BLEU(max_ngram_order=n, force=True).corpus_score(said, [meant])
    assert bleu(counts(said, meant), n, stream(), resamples=5).value == pytest.approx(whole.score)


@given(pairs, st.integers(1, ORDER))
def test_resampled_corpora_are_ranked_by_their_score(texts: list[tuple[str, str]], n: int) -> None:
    found = counts(*(list(side) for side in zip(*texts, strict=True)))
    assert _scores(found, n) == pytest.approx([score(row, n) for row in found])


def test_value_is_the_formula_of_the_paper() -> None:
    # "a b c d e" against "a b c x e f": 4 of 5 words, 2 of 4 pairs, 1 of 3 triples; one word short
    found = counts(["a b c d e"], ["a b c x e f"])
    assert found.tolist() == [[5, 6, 4, 2, 1, 0, 5, 4, 3, 2]]
    value = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 2 / 4 * 1 / 3) ** (1 / 3)
    assert bleu(found, 3, stream()).value == pytest.approx(value)
    smoothed = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 2 / 4 * 1 / 3 * 1 / (2 * 2)) ** (1 / 4)
    assert bleu(found, 4, stream()).value == pytest.approx(smoothed)


def test_same_texts_score_100_and_strangers_0() -> None:
    assert bleu(counts(SAID, SAID), 3, stream()).ci == pytest.approx((100, 100))
    assert bleu(counts(["a b c d"] * 3, ["e f g h"] * 3), 4, stream()).value == 0
    assert bleu(counts([""] * 3, ["e f g h"] * 3), 4, stream()).ci == (0, 0)


def test_bounds_are_the_quantiles_of_resampled_corpora() -> None:
    # two segments of one word: a corpus drawn from them has BLEU-1 of 0, 50 or 100 (¼, ½, ¼)
    found = counts(["a", "b"], ["a", "c"])
    assert bleu(found, 1, stream(), confidence=0.95).ci == pytest.approx((0, 100))
    assert bleu(found, 1, stream(), confidence=0.4).ci == pytest.approx((50, 50))


@given(st.integers(0, 100), st.integers(1, ORDER))
@settings(max_examples=15)
def test_interval_holds_value_and_follows_from_seed(seed: int, order: int) -> None:
    found = counts(SAID * 5, MEANT * 5)
    interval = bleu(found, order, stream(seed), resamples=200)
    assert interval.ci is not None and interval.value is not None
    assert interval.ci[0] < interval.value < interval.ci[1] and interval.n == 20
    assert interval == bleu(found, order, stream(seed), resamples=200)
    assert interval.ci != bleu(found, order, stream(seed + 1), resamples=200).ci


def segments(draw: np.random.Generator, n: int) -> np.ndarray:
    """n segments of ten words, of which a binomial number match; as many pairs less one, …"""
    right = draw.binomial(10, 0.6, size=n)
    matched = np.maximum(right[:, None] - np.arange(ORDER), 0)
    said = np.broadcast_to(10 - np.arange(ORDER), (n, ORDER))
    return np.concatenate([np.full((n, 2), 10), matched, said], axis=1)


def test_interval_narrows_with_root_of_n() -> None:
    few, many = (bleu(segments(stream(1), n), 3, stream(2)).ci for n in (50, 800))
    assert few is not None and many is not None
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(4, rel=0.25)


def test_one_segment_has_a_value_without_interval() -> None:
    one = bleu(counts(SAID[:1], MEANT[:1]), 4, stream())
    assert one.value is not None and one.ci is None and one.n == 1
    none = bleu(counts([], []), 4, stream())
    assert none.value is None and none.ci is None and none.n == 0
    method = bleu(counts(SAID, MEANT), 3, stream(), resamples=30).method
    for word in ("BLEU-3", "sacrebleu 2", "13a", "smoothing exp", "bootstrap", "30 resamples"):
        assert word in method
