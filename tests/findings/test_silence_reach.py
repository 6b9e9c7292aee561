"""Families by tossing again, and reach: levels and powers by simulation, figures in docs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import scipy

from audit.core.terms import Leaked, OnClaim
from audit.results.joined import leaked_overall
from audit.statistics import leak_power
from audit.statistics.tossed import Summed
from tests.findings import nothing_leaks

RUNS, USERS = 150, 120


def test_tests_of_all_attacks_are_counted_beforehand() -> None:
    """No more tests run than were counted, and those of coins are adjusted together."""
    size = nothing_leaks.family(nothing_leaks.secrets_of(USERS))
    found = nothing_leaks.findings(USERS, np.random.default_rng(5))
    run = {f.test for f in found if f.p_value is not None}
    run |= {f"{f.test}: guesses" for f in found if f.guesses_p is not None}
    assert len(run) == size.tests - 4  # low ends at 1 % and 0.1 % need more controls
    assert all(f.adjusted_p >= f.p_value for f in found if f.p_value is not None)  # type: ignore[operator]


@pytest.mark.calibration
def test_nothing_leaking_is_silent_in_four_of_five_runs() -> None:
    """A refuted claim counts as a leak: its guesses are among the tests of leaks."""
    words: Counter[str] = Counter()
    for seed in range(RUNS):
        found = nothing_leaks.findings(USERS, np.random.default_rng(seed))
        refuted = any(f.claim == OnClaim.REFUTED for f in found)
        words[Leaked.LEAK if refuted else leaked_overall(found)] += 1
    print(dict(words))
    assert words[Leaked.LEAK] <= 0.05 * RUNS + 2 * (0.05 * 0.95 * RUNS) ** 0.5
    assert words[Leaked.NONE_FOUND] >= 0.8 * RUNS


@pytest.mark.parametrize(("planted", "twins", "power"), [(49, 71, 0.93), (60, 60, 0.98),
                                                         (50, 50, 0.96)])  # fmt: skip
def test_power_at_a_third_is_as_stated(planted: int, twins: int, power: float) -> None:
    found = leak_power.of_top_test(planted, twins, 1 / 3, 0.05 / 66)
    assert found == pytest.approx(power, abs=0.015)


def test_power_is_a_probability_however_many_people() -> None:
    """Sums of doubles were just above 1, so a run of 2,200 people ended without results."""
    for power in (leak_power.of_top_test, leak_power.of_rank_test):
        assert 0.999 < power(1100, 1100, 1 / 3, 0.05 / 66) <= 1.0


@pytest.mark.parametrize("share", [1 / 4, 1 / 3])
def test_rank_test_power_equals_simulated(share: float) -> None:
    """Of whole leaks, by the order of all scores; exact p-values of the order."""
    draws, level, found = np.random.default_rng(1), 0.05 / 66, 0
    for _ in range(1000):
        scores = draws.normal(size=120)
        scores[:49] += 100.0 * (draws.random(49) < share)
        u = scipy.stats.rankdata(scores)[:49].sum() - 49 * 50 / 2
        z = (abs(u - 49 * 71 / 2) - 0.5) / (49 * 71 * 121 / 12) ** 0.5
        found += 2 * scipy.stats.norm.sf(z) <= level
    assert leak_power.of_rank_test(49, 71, share, level) == pytest.approx(found / 1000, abs=0.05)


@pytest.mark.parametrize(("tries", "needed", "power"), [(200, 12, 0.82), (20, 12, 0.0)])
def test_hits_compete_for_their_words(tries: int, needed: int, power: float) -> None:
    """Each generation is that of one of 60 people, a quarter of whom leak."""
    draws = np.random.default_rng(2)
    found = 0
    for _ in range(4000):
        leaking = draws.random(60) < 0.25
        came_up = np.unique(draws.integers(60, size=tries))
        found += int(leaking[came_up].sum() >= needed)
    stated = leak_power.of_hits(tries, 60, needed, 0.25)
    assert stated == pytest.approx(power, abs=0.05)
    assert stated == pytest.approx(found / 4000, abs=0.03)
    assert leak_power.of_hits(tries, 60, None, 0.25) == 0.0


def test_other_measures_by_their_binomials() -> None:
    """1 − (1 − f)ⁿ of first ranks; a coin of 1/2 + f/2."""
    assert leak_power.of_first_rank(4, 1e6, 1 / 3, 7e-4) == pytest.approx(1 - (2 / 3) ** 4)
    assert leak_power.of_first_rank(4, 1e4, 1 / 3, 7e-4) == 0.0  # 8 in 10,000 are by chance
    assert leak_power.of_choice(2, 1 / 3, 0.5) == pytest.approx((2 / 3) ** 2)
    assert leak_power.of_low_end(2, 2, 1 / 3, 0.17) == pytest.approx(1 / 9)  # both above: 1/6


@pytest.mark.parametrize(
    ("usual", "power"), [((), 1.0), ((1,) * 6, 0.65), ((1,) * 18, 0.08), ((2, 1, 1), 0.72)]
)
def test_power_of_sums_falls_with_what_people_out_score(
    usual: tuple[int, ...], power: float
) -> None:
    """One in three of 60 people in leaks; all of them else score as the 60 people out."""
    draws, coins, level, found = np.random.default_rng(3), np.arange(120) < 60, 0.05 / 76, 0
    others = np.zeros(60)
    others[: len(usual)] = usual
    for _ in range(500):
        scores = np.concatenate([draws.choice(others, 60), others])
        scores[:60] = np.maximum(scores[:60], draws.random(60) < 1 / 3)
        found += Summed(scores).p_value(coins) <= level
    stated = leak_power.of_sums(others, 60, 1 / 3, level)
    assert stated == pytest.approx(power, abs=0.02)
    assert stated == pytest.approx(found / 500, abs=0.06)


def test_power_of_sums_without_people_or_scores() -> None:
    """Nine who are all among 49 of 120: 2·C(49, 9)/C(120, 9) <= 7.6e-4 < 2·C(49, 8)/C(120, 8)."""
    nine = float(scipy.stats.binom.sf(8, 49, 1 / 3))
    assert leak_power.of_sums([0] * 71, 49, 1 / 3, 0.05 / 66) == pytest.approx(nine)
    assert leak_power.of_sums([], 49, 1 / 3, 0.05 / 66) == 0.0
    assert leak_power.of_sums([0] * 71, 0, 1 / 3, 0.05 / 66) == 0.0
    assert leak_power.of_sums([9], 1 << 20, 1 / 3, 0.05 / 66) == 0.0
