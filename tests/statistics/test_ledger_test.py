import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.ledger_test import ledger_test
from audit.statistics.renyi import renyi_divergence
from tests.simulations import most, repeats

ALPHA, QUERIES, WORDS = 2.0, 12, 4


def sessions(draw, transcripts, stop_at=math.inf):
    """Transcripts under D' of an adaptive release, with L and the charges the ledger should make.

    The next query depends on the words released so far (a fixed table of two pmfs per context),
    and the release stops before the charges exceed `stop_at`.
    """
    base, more = draw.normal(size=(2, QUERIES, WORDS, WORDS))
    log_h, log_n = (
        x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (base + 0.35 * more, base)
    )
    costs = renyi_divergence(log_h, log_n, ALPHA)  # (query, last word)
    last = np.zeros(transcripts, dtype=int)
    ratio, charge = np.zeros(transcripts), np.zeros(transcripts)
    going = np.ones(transcripts, dtype=bool)
    for t in range(QUERIES):
        going &= charge + costs[t, last] <= stop_at
        gumbel = draw.gumbel(size=(transcripts, WORDS))
        word = (log_n[t, last] + gumbel).argmax(axis=1)  # drawn under D'
        gain = (log_h - log_n)[t, last, word]
        ratio += np.where(going, gain, 0.0)
        charge += np.where(going, costs[t, last], 0.0)
        last = word
    return ratio, charge


@pytest.mark.parametrize("stop_at", [math.inf, 0.6])
@repeats(200, 1000)
def test_true_ledgers_are_rejected_at_level(stop_at, runs):
    draw = np.random.default_rng(0)
    rejected, gains = 0, []
    for _ in range(runs):
        ratio, charge = sessions(draw, 100, stop_at)
        rejected += ledger_test(ratio, charge, ALPHA).rejected
        gains.append(np.mean(np.exp(ALPHA * ratio - (ALPHA - 1) * charge)))
    assert rejected / runs <= most(runs)
    assert np.mean(gains) == pytest.approx(1.0, abs=30 / runs)  # an exact null


def test_understated_charges_are_rejected():
    for charged, least in ((0.0, 0.95), (0.5, 0.6)):
        draw = np.random.default_rng(1)
        found = 0
        for _ in range(50):
            ratio, charge = sessions(draw, 600)
            found += ledger_test(ratio, charged * charge, ALPHA).rejected
        assert found / 50 >= least


def test_mean_wealth_is_one_by_enumeration():
    """All 2^8 sequences of X in {0.25, 2.5}, mean 1: the fair game keeps its mean exactly."""
    up = (1 - 0.25) / (2.5 - 0.25)
    mean = 0.0
    for code in range(256):
        ups = np.array([(code >> i) & 1 for i in range(8)], dtype=bool)
        x = np.where(ups, 2.5, 0.25)
        chance = up ** ups.sum() * (1 - up) ** (8 - ups.sum())
        mean += chance * ledger_test(np.log(x) / ALPHA, np.zeros(8), ALPHA).e_value
    assert mean == pytest.approx(1.0)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0, 3), st.floats(1.1, 10))
def test_larger_charges_lower_the_wealth(ratios, charge, alpha):
    n = len(ratios)
    lenient = ledger_test(ratios, np.full(n, charge + 0.1), alpha)
    strict = ledger_test(ratios, np.full(n, charge), alpha)
    assert lenient.e_value <= strict.e_value * (1 + 1e-9)
    assert strict.largest >= max(1.0, strict.e_value) * (1 - 1e-9)
    assert 0 <= strict.p_value <= lenient.p_value * (1 + 1e-9) <= 1 + 1e-9
    assert strict.p_value == pytest.approx(1 / strict.largest)
    assert strict.rejected == (strict.largest >= 20) or strict.largest == pytest.approx(20)


def test_gain_of_one_keeps_the_wealth():
    result = ledger_test([1.0, 1.0], [3.0, 3.0], 1.5)  # 1.5·1 - 0.5·3 = 0
    assert result.e_value == pytest.approx(1.0)
    assert (result.n, result.rejected) == (2, False)


def test_one_bet_by_hand():
    result = ledger_test([math.log(3.0)], [0.0], 2.0)  # X = 9; shares 1/64, 1/16, 1/4, 3/4
    assert result.e_value == pytest.approx(1 + 8 * (1 / 64 + 1 / 16 + 1 / 4 + 3 / 4) / 4)


def test_the_direction_of_the_ratio_matters():
    certain = np.full(50, 0.5)
    assert ledger_test(certain, np.zeros(50), ALPHA).rejected
    assert not ledger_test(-certain, np.zeros(50), ALPHA).rejected


def test_rejection_stands_after_the_wealth_is_lost():
    result = ledger_test([2.0] * 6 + [-math.inf] * 400, np.zeros(406), ALPHA)
    assert result.rejected and result.largest >= 20 > result.e_value


def test_ends():
    assert ledger_test([], [], 2.0).e_value == 1.0
    assert ledger_test([1e6], [0.0], 2.0).e_value == math.inf
    assert not ledger_test([5.0], [math.inf], 2.0).rejected  # an infinite charge excuses all
    assert ledger_test([2.0] * 3, [0.0] * 3, 2.0, gamma=1e-9).rejected is False
