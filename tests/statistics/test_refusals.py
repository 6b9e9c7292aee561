"""What each method refuses, and which of its arguments the message names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from audit.statistics import (
    bayesian,
    betting,
    binomial,
    bleu,
    blind,
    bootstrap,
    bounded_mean,
    claim_curve,
    claim_guesses,
    clamped_laplace,
    clopper_pearson,
    discoverable,
    exposure,
    f_dp,
    fisher,
    hits,
    holm,
    interval,
    ledger_test,
    low_end,
    null_exposure,
    one_run,
    order_statistics,
    power,
    renyi,
    roc,
    skew_normal,
    stopped_rate,
    t_interval,
    transcript,
    two_rates,
)

NAN, INF = math.nan, math.inf
STREAM = np.random.default_rng(0)
GAUSSIAN, LAW = claim_curve.gaussian(1.0), skew_normal.SkewNormal(0.0, 1.0, 0.0, 50, 0.5)
EVEN, SKEW = np.log([0.5, 0.5]), np.log([0.25, 0.75])
COUNTS = ((-1, 5), (6, 5))
GUESSES = ((5, 6, 1), (5, 4, 5), (5, 4, -1))
ERRORS = ((-1, 5, 0, 5), (0, 5, 6, 5), (0, 5, -1, 5))
ROWS = tuple((bad,) for bad in ([-0.1], [1.1], [NAN], [[0.5]]))
SIDES = tuple(pair for bad in ([NAN], [[1.0]]) for pair in ((bad, [1.0]), ([1.0], bad)))
TRANSCRIPTS = tuple((bad, 0.5) for bad in ([], [[1.0]], [NAN], [-INF]))
RANKS = ((10, 0), (10, 11), (0, 1), (10, NAN))
SCORES = (["a"] * 2, ["b"] * 2, STREAM)
SEGMENTS = bleu.counts(["a b", "c"], ["a b", "d"])

REFUSED: tuple[tuple[Callable[..., Any], str, tuple[tuple[Any, ...], ...]], ...] = (
    (bayesian.epsilon_credible, "errors", ERRORS),
    (bayesian.epsilon_credible, "delta", ((0, 5, 0, 5, 1.5), (0, 5, 0, 5, NAN))),
    (bayesian.epsilon_credible, "credibility", ((0, 5, 0, 5, 0.0, 1.0), (0, 5, 0, 5, 0.0, 0.0))),
    (betting.mean_lower, "values", ROWS),
    (betting.mean_lower, "confidence", (([0.5], 1.0), ([0.5], 0.0))),
    (betting.exceeds, "values", tuple((*row, 0.5) for row in ROWS)),
    (binomial.p_value, "hits", tuple((*counts, 0.1) for counts in COUNTS)),
    (binomial.p_value, "chance", ((1, 3, 1.1), (1, 3, -0.1), (1, 3, NAN))),
    (bleu.bleu, "order", ((SEGMENTS, 5, STREAM), (SEGMENTS, 0, STREAM))),
    (bleu.bleu, "resample", ((SEGMENTS, 4, STREAM, 1.0), (SEGMENTS, 4, STREAM, 0.9, 0))),
    (bleu.counts, "argument", ((["a"], ["a", "b"]),)),
    (blind.blind_auc, "confidence", ((*SCORES, 1.0), (*SCORES, 0.0))),
    (blind.blind_auc, "permutations", ((*SCORES, 0.95, 0),)),
    (bootstrap.bootstrap_ratio, "per record", (([1.0], [1.0, 2.0], STREAM),)),
    (bootstrap.bootstrap_ratio, "per record", (([[1.0]], [[1.0]], STREAM),)),
    (bootstrap.bootstrap_ratio, "numerator", tuple(([x], [1.0], STREAM) for x in (NAN, -INF))),
    (bootstrap.bootstrap_ratio, "numerator 0", (([1.0, 1.0], [1.0, 0.0], STREAM),)),
    (bootstrap.bootstrap_ratio, "denominator", tuple(([1.0], [x], STREAM) for x in (-1.0, INF))),
    (bootstrap.bootstrap_ratio, "confidence", (([1.0], [1.0], STREAM, 1.0),)),
    (bootstrap.bootstrap_ratio, "resample", (([1.0], [1.0], STREAM, 0.9, 0),)),
    (bounded_mean.mean_interval, "values", ROWS),
    (bounded_mean.mean_interval, "confidence", (([0.5], 1.0), ([0.5], 0.0))),
    (claim_curve.p_value, "guesses must", tuple((GAUSSIAN, *counts) for counts in GUESSES)),
    (claim_curve.p_value, "one coin", ((GAUSSIAN, 0, 0, 0),)),
    (claim_curve.is_refuted, "level", tuple((GAUSSIAN, 9, 8, 8, x) for x in (0.0, 1.0))),
    (claim_curve.gaussian, "mu", ((0.0,), (-1.0,), (INF,))),
    (claim_curve.Curve, "as many", ((np.ones(3), np.ones(2)), (np.ones((1, 1)), np.ones((1, 1))))),
    (claim_curve.Curve, "at least 0", ((-np.ones(1), np.ones(1)), (np.ones(1), -np.ones(1)))),
    (claim_curve.Curve, "below", ((np.full(1, 1e3), np.zeros(1)),)),
    (claim_guesses.guess_count, "2 coins", ((GAUSSIAN, 1, 0.05),)),
    (
        clamped_laplace.least_divergence,
        "must",
        tuple(
            ([0.5, 0.5], [0.5, 0.5], *settings)
            for settings in ((0.0, 1.0, 2.0), (1.0, 0.0, 2.0), (1.0, 1.0, 1.0), (1, 1, 2, -1.0))
        ),
    ),
    (discoverable.expected_distinct, "probabilities", tuple(([x], 1) for x in (1.1, -0.1, NAN))),
    (discoverable.expected_distinct, "draws", (([0.1], -1),)),
    (discoverable.queries_needed, "probability", ((-0.1, 0.5), (1.1, 0.5), (NAN, 0.5))),
    (discoverable.queries_needed, "wanted", ((0.5, 0.0), (0.5, 1.0))),
    (exposure.exposure_bits, "rank", RANKS),
    (exposure.epsilon_from_rank, "rank", RANKS),
    (exposure.epsilon_from_rank, "delta", ((10, 1, -1.0),)),
    (exposure.epsilon_from_rank, "confidence", ((10, 1, 0.0, 0.0),)),
    (exposure.epsilon_from_rank, "relation", ((10, 1, 0.0, 0.95, "remove"),)),
    (exposure.epsilon_from_rank, "copy", ((10, 1, 0.0, 0.95, "replace", 0),)),
    (exposure.epsilon_from_ranks, "rank", ((10, []), *((n, [1, rank]) for n, rank in RANKS))),
    (exposure.rank_p_value, "epsilon", ((-1.0, 10, 1),)),
    (exposure.sampled_exposure_bits, "references", (([1.0], []),)),
    (exposure.sampled_exposure_bits, "NaN", (([NAN], [1.0]), ([1.0], [NAN]))),
    (f_dp.gaussian_rejected, "guesses", tuple((1.0, *counts) for counts in GUESSES)),
    (f_dp.gaussian_rejected, "mu", ((-1.0, 5, 4, 3), (NAN, 5, 4, 3))),
    (f_dp.mu_lower, "confidence", ((5, 4, 3, 1.0),)),
    (f_dp.epsilon_of, "mu", ((-1.0, 0.1), (INF, 0.1))),
    (f_dp.epsilon_of, "delta", ((1.0, 1.1),)),
    (fisher.combined_p_value, "p-values", ((bad,) for bad in ([], [1.1], [-0.1], [NAN], [[0.5]]))),
    (hits.p_value, "k must", ((-1, [1], 5, 0.1), (1, [1], 5, 0.0), (1, [1], 5, 1.5))),
    (holm.adjusted_p_values, "p-values", (([1.1],), ([-0.1],), ([NAN],), ([[0.1]],))),
    *(
        (method, word, calls)
        for method in (
            clopper_pearson.clopper_pearson,
            clopper_pearson.one_sided_upper,
            clopper_pearson.one_sided_lower,
        )
        for word, calls in (("hits", COUNTS), ("conf", ((1, 5, 0.0), (1, 5, 1.0), (1, 5, NAN))))
    ),
    (interval.Interval, "NaN", ((NAN, 0.0, 1.0, 3, 0.95, "x"),)),
    (interval.Interval, "two bounds", ((0.5, 0.0, None, 3, 0.95, "x"),)),
    (interval.Interval, "reversed", ((0.5, 1.0, 0.0, 3, 0.95, "x"),)),
    (ledger_test.ledger_test, "per transcript", (([0.0], [0.0, 0.0], 2.0),)),
    (ledger_test.ledger_test, "ratios", tuple(([x], [0.0], 2.0) for x in (NAN, INF))),
    (ledger_test.ledger_test, "charges", tuple(([0.0], [x], 2.0) for x in (NAN, -1.0))),
    (ledger_test.ledger_test, "alpha", tuple(([0.0], [0.0], x) for x in (1.0, INF))),
    (ledger_test.ledger_test, "gamma", tuple(([0.0], [0.0], 2.0, x) for x in (0.0, 1.0))),
    (low_end.p_value, "count", ((-1, 3, 3), (4, 3, 3), (1, 3, 3, 3), (1, 3, 3, -1), (0, 0, 0))),
    (low_end.above, "NaN", (([NAN], [1.0], 0, STREAM), ([1.0], [NAN], 0, STREAM))),
    (low_end.above, "control", tuple(([1.0], [1.0, 2.0], x, STREAM) for x in (-1, 2))),
    (low_end.above, "control", (([1.0], [], 0, STREAM),)),
    (null_exposure.p_value, "rank", tuple((10, x) for x in ([], [0], [11], [[1]], [NAN]))),
    (one_run.epsilon_lower, "guesses", GUESSES),
    (one_run.epsilon_lower, "delta", ((5, 4, 3, -0.1), (5, 4, 3, NAN))),
    (one_run.epsilon_lower, "confidence", tuple((5, 4, 3, 0.0, x) for x in (0.5, 1.0, NAN))),
    (one_run.p_value, "guesses", tuple((1.0, *counts) for counts in GUESSES)),
    (one_run.p_value, "delta", ((1.0, 5, 4, 3, -0.1), (1.0, 5, 4, 3, NAN))),
    (one_run.p_value, "epsilon", ((-0.1, 5, 4, 3), (NAN, 5, 4, 3))),
    (order_statistics.median_interval, "values", (([NAN],), ([-INF],), ([[1.0]],))),
    (order_statistics.median_interval, "confidence", (([1.0], 1.0), ([1.0], 0.0))),
    (power.sample_size_for, "limit", ((0.0,), (1.0,), (NAN,))),
    (power.sample_size_for, "confidence", ((0.1, 1.0),)),
    (power.smallest_rate, "hits", ((-1,),)),
    (renyi.renyi_divergence, "alpha", tuple((EVEN, SKEW, x) for x in (1.0, 0.5, -1.0, INF, NAN))),
    (renyi.renyi_divergence, "log-prob", (([0.5, 0.5], SKEW, 2.0), ([NAN, 0.0], SKEW, 2.0))),
    (renyi.least_divergence, "alpha", ((EVEN, SKEW, 1.0, 0.1), (EVEN, SKEW, INF, 0.1))),
    (renyi.least_divergence, "error", ((EVEN, SKEW, 2.0, -1.0), (EVEN, SKEW, 2.0, NAN))),
    (roc.auc, "scores", SIDES),
    (roc.auc, "confidence", (([1.0], [1.0], 1.0),)),
    (roc.curve, "scores", SIDES),
    (roc.top_half_accuracy, "scores", SIDES),
    (roc.tpr_at_fpr, "rate", tuple(([1.0], [1.0], x) for x in (0.0, 1.1, NAN))),
    (roc.refined_accuracy, "share", tuple(([1.0], [1.0], STREAM, x) for x in (0.0, 1.0))),
    (skew_normal.fit, "references", ((range(99), STREAM), ([INF] * 100, STREAM))),
    (skew_normal.fit, "references", (([1.0] * 100, STREAM), ([[1.0]] * 100, STREAM))),
    (skew_normal.exposure_bits, "NaN", ((LAW, [NAN], 10), (LAW, [0.0], 0.5))),
    (stopped_rate.Series, "hits", ((2, 1), (-1, 1), (0, -1))),
    (stopped_rate.stopped_rate, "confidence", (([stopped_rate.Series(0, 1)], 1.0),)),
    (stopped_rate.stopped_rate, "series", (([],),)),
    (t_interval.t_interval, "values", (([],), ([NAN],), ([1.0, NAN],), ([1.0, -INF],))),
    (t_interval.t_interval, "confidence", tuple(([1.0, 2.0], x) for x in (0.0, 1.0, 1.1, NAN))),
    (transcript.delta_lower, "transcript", TRANSCRIPTS),
    (transcript.delta_lower, "epsilon", (([1.0], -1.0),)),
    (transcript.delta_lower, "confidence", (([1.0], 1.0, 1.0),)),
    (transcript.epsilon_lower, "transcript", TRANSCRIPTS),
    (transcript.epsilon_lower, "delta", (([1.0], 1.5),)),
    (two_rates.epsilon_lower, "hits", ERRORS),
    (two_rates.epsilon_lower, "delta", ((0, 5, 0, 5, 1.5), (0, 5, 0, 5, NAN))),
    (two_rates.epsilon_lower, "confidence", ((0, 5, 0, 5, 0.0, 1.0),)),
)


def test_bad_arguments_are_refused_by_name() -> None:
    for method, word, calls in REFUSED:
        for arguments in calls:
            with pytest.raises(ValueError, match=word):
                method(*arguments)
                pytest.fail(f"{method.__module__}.{method.__name__}{arguments} is not refused")
