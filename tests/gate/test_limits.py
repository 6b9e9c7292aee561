"""Absolute limits: met, broken or undecided, and the number of trials that would decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from audit.gate import limits
from audit.gate.outcome import State
from audit.gate.policy import Limit
from audit.gate.strength import shown
from audit.results.numbers import FROM_FILE
from audit.statistics.bounded_mean import mean_interval
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.withheld_rate import withheld_rate
from tests import by_hand
from tests.gate import make
from tests.simulations import more


def decided(k: int, n: int, limit: float) -> tuple[State, str]:
    return limits.decide(make.rate(k, n), limit, 0.95)


def test_none_of_two_hundred_does_not_show_one_percent() -> None:
    state, said = decided(0, 200, 0.01)
    assert state == State.INCONCLUSIVE
    assert "n = 299" in said
    assert math.ceil(math.log(0.05) / math.log(0.99)) == 299


def test_the_number_that_was_named_decides_and_one_less_does_not() -> None:
    assert decided(0, 299, 0.01)[0] == State.PASS
    assert decided(0, 298, 0.01)[0] == State.INCONCLUSIVE


@pytest.mark.parametrize(("k", "n"), [(0, 60), (1, 100), (5, 100), (12, 100), (30, 40)])
def test_a_limit_errs_with_the_probability_it_says(k: int, n: int) -> None:
    """PASS iff so few hits have probability 5 % or less at the limit; FAIL iff so many do."""
    for limit in (0.01, 0.05, 0.2, 0.6):
        state, _ = decided(k, n, limit)
        few, many = binom.cdf(k, n, limit), binom.sf(k - 1, n, limit)
        expected = State.PASS if few <= 0.05 else State.FAIL if many < 0.05 else State.INCONCLUSIVE
        assert state == expected


def test_between_the_bounds_nothing_is_decided() -> None:
    low, high, _ = limits.bounds(make.rate(12, 100), 0.95)
    assert low is not None and high is not None
    near = {0.999 * low: State.FAIL, 1.001 * low: State.INCONCLUSIVE,
            0.999 * high: State.INCONCLUSIVE, 1.001 * high: State.PASS}  # fmt: skip
    assert [decided(12, 100, limit)[0] for limit in near] == list(near.values())


@pytest.mark.parametrize(("k", "n", "limit"), [(2, 100, 0.05), (6, 100, 0.03), (1, 40, 0.1)])
def test_trials_to_decide_decide(k: int, n: int, limit: float) -> None:
    needed = limits.trials_to_decide(k, n, limit, 0.95)
    assert needed is not None and needed > n
    whole = math.ceil if k / n < limit else math.floor
    states = [decided(whole(k / n * t), t, limit)[0] for t in (needed - 1, needed)]
    assert states[0] == State.INCONCLUSIVE != states[1]


def test_at_the_limit_itself_nothing_decides() -> None:
    assert limits.trials_to_decide(1, 100, 0.01, 0.95) is None
    assert limits.trials_to_decide(0, 100, 0.0, 0.95) is None
    assert "no number of trials" in decided(1, 100, 0.01)[1]
    assert decided(1, 100, 0.0)[0] == State.FAIL


def test_a_rate_of_a_session_that_may_stop_is_bounded_at_any_stopping_time() -> None:
    cut, bounds = make.rate(3, 60, cut=True), stopped_rate([Series(3, 60)], 0.95)
    assert limits.bounds(cut, 0.95) == (bounds.low, bounds.high, 0.95)
    assert shown(cut) == "3 of 60"
    of_none = make.rate(0, 100, cut=False)
    assert limits.decide(of_none, 0.04, 0.95)[0] == State.INCONCLUSIVE
    assert limits.decide(make.rate(0, 100), 0.04, 0.95)[0] == State.PASS
    needed = limits.trials_to_decide(0, 100, 0.04, 0.95, fixed=False)
    assert needed is not None and needed > 100
    states = [limits.decide(make.rate(0, n, cut=False), 0.04, 0.95)[0]
              for n in (needed - 1, needed)]  # fmt: skip
    assert states == [State.INCONCLUSIVE, State.PASS]
    assert f"n = {needed} would decide" in limits.decide(of_none, 0.04, 0.95)[1]
    needed = limits.trials_to_decide(30, 100, 0.2, 0.95, fixed=False)
    assert needed is not None and limits.decide(
        make.rate(math.floor(0.3 * needed), needed, cut=False), 0.2, 0.95
    )[0] == State.FAIL  # fmt: skip


def test_an_auc_is_limited_on_both_sides() -> None:
    row = np.arange(200.0)
    for members, controls in ((row + 150, row), (row, row + 150)):
        metric = make.area(members, controls)
        assert limits.decide(metric, 0.6, 0.95)[0] == State.FAIL
    same = make.area(row, row)
    assert limits.decide(same, 0.7, 0.95)[0] == State.PASS
    state, said = limits.decide(same, 0.51, 0.95)
    assert state == State.INCONCLUSIVE and "would decide" in said


@pytest.mark.parametrize(("n", "share"), [(21, 0.1), (60, 0.01), *more((21, 0.05), (60, 0.03))])
def test_a_limit_at_the_mean_of_few_skewed_probabilities_seldom_passes(
    n: int, share: float, generator: np.random.Generator
) -> None:
    """Most samples hold no secret that leaks; each side errs with 2.5 % at most."""
    states, runs = [], 150
    for _ in range(runs):
        values = np.where(generator.random(n) < share, 0.9, 1e-6) * generator.uniform(0.5, 1, n)
        found = mean_interval(values)
        made = make.rate(0).model_copy(update={"k": None, "n": n, "unit": "probability of one"})
        made = made.model_copy(update={"value": found.value, "ci": found.ci})
        states.append(limits.decide(made, share * 0.9 * 0.75, 0.95)[0])
    assert max(states.count(State.PASS), states.count(State.FAIL)) <= binom.ppf(0.999, runs, 0.025)


def test_a_run_is_not_surer_than_its_interval() -> None:
    metric = make.area(np.arange(200.0), np.arange(200.0))
    assert limits.decide(metric, 0.9, 0.975)[0] == State.PASS
    assert limits.decide(metric, 0.9, 0.99)[0] == State.INCONCLUSIVE


def names(limit: Limit) -> list[tuple[str, State]]:
    found = (make.rate(0, 500), make.rate(3, 100, "recall"), make.rate(None, metric="verbatim"))
    releases = [("submix", make.release("submix", *found)), ("dp_sgd", make.release("dp_sgd"))]
    return [(check.id, check.state) for check in limits.checks(limit, releases, 0.95)]


def test_patterns_choose_what_is_limited() -> None:
    one = Limit(0.01, defense="submix", metric="hit_rate")
    assert names(one) == [("limit/submix/extraction.hit_rate", State.PASS)]
    assert len(names(Limit(0.01, attack="extr*"))) == 3


def test_what_was_not_measured_is_undecided() -> None:
    assert names(Limit(1.0, metric="verbatim"))[0][1] == State.INCONCLUSIVE


def test_a_limit_that_guards_nothing_fails() -> None:
    for limit in (Limit(0.5, metric="hitrate"), Limit(0.5, defense="sub"), Limit(1, attack="x")):
        assert [state for _, state in names(limit)] == [State.FAIL]


@pytest.mark.parametrize("k", [0, 40, None])
def test_what_asks_more_than_the_release_gives_is_not_limited(k: int | None) -> None:
    beyond = make.rate(k, stronger_than_release=True, metric="probability")
    releases = [("x", make.release("x", beyond, make.rate(40)))]
    checks = {c.subject: c for c in limits.checks(Limit(0.01), releases, 0.95)}
    assert checks["extraction.hit_rate"].state == State.FAIL
    assert checks["extraction.probability"].state == State.SKIPPED
    assert "more access than the release gives" in checks["extraction.probability"].sentence


@pytest.mark.parametrize("limit", [0.5, 0.5 - 1e-12])
def test_where_no_number_of_trials_is_worth_naming_none_is_named(limit: float) -> None:
    metric = make.rate(10, 20).model_copy(update={"k": None, "ci": (-1e308, 0.9)})
    state, said = limits.decide(metric, limit, 0.95)
    assert state == State.INCONCLUSIVE and "no number of trials decides" in said


def test_withheld_trials_never_pass_a_limit() -> None:
    known = by_hand.finding(0.0, ci=(0.0, 0.0362), k=0)
    seen = withheld_rate(0, 100, 90)
    withheld = known.changed(ci=seen.ci, kind=seen.kind, withheld=90)
    assert limits.decide(known, 0.05, 0.95)[0] is State.PASS
    assert limits.decide(withheld, 0.05, 0.95)[0] is State.INCONCLUSIVE
    document = withheld.model_dump(mode="json")
    assert type(withheld).model_validate(document, context=FROM_FILE) == withheld
    with pytest.raises(ValueError, match=r"ends below the rate 0\.9"):
        type(withheld).model_validate({**document, "ci": (0.0, 0.0362)}, context=FROM_FILE)
