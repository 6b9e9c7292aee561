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
from audit.results.measurement import Measurement
from audit.results.numbers import FROM_FILE
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.withheld_rate import withheld_rate
from tests import by_hand
from tests.gate import make
from tests.gate.make import LOST

PASS, FAIL, OPEN = State.PASS, State.FAIL, State.INCONCLUSIVE


def decided(one: Measurement, limit: float, confidence: float = 0.95) -> State:
    return limits.decide(one, limit, confidence)[0]


@pytest.mark.parametrize(("k", "n"), [(0, 60), (1, 100), (5, 100), (12, 100), (30, 40)])
def test_limit_errs_with_the_probability_it_states(k: int, n: int) -> None:
    """PASS iff so few hits have probability 5 % or less at the limit; FAIL iff so many do."""
    for limit in (0.01, 0.05, 0.2, 0.6):
        few, many = binom.cdf(k, n, limit), binom.sf(k - 1, n, limit)
        expected = PASS if few <= 0.05 else FAIL if many < 0.05 else OPEN
        assert decided(make.rate(k, n), limit) == expected


def test_between_the_bounds_nothing_is_decided() -> None:
    one = make.rate(12, 100)
    low, high, _ = limits.bounds(one, 0.95)
    assert low is not None and high is not None
    near = (0.999 * low, 1.001 * low, 0.999 * high, 1.001 * high)
    assert [decided(one, limit) for limit in near] == [FAIL, OPEN, OPEN, PASS]


@pytest.mark.parametrize(
    ("k", "n", "limit"), [(0, 200, 0.01), (2, 100, 0.05), (6, 100, 0.03), (1, 40, 0.1)]
)
@pytest.mark.parametrize("fixed", [True, False])
def test_named_number_of_trials_decides_and_no_fewer(
    k: int, n: int, limit: float, fixed: bool
) -> None:
    """Of a session that may stop, too, whose rate holds at any stopping time."""
    cut = {} if fixed else {"cut": False}
    state, said = limits.decide(make.rate(k, n, **cut), limit, 0.95)
    needed = limits.trials_to_decide(k, n, limit, 0.95, fixed=fixed)
    assert needed is not None and needed > n
    assert state == OPEN and f"n = {needed} would decide" in said
    if (k, fixed) == (0, True):
        assert needed == math.ceil(math.log(0.05) / math.log(0.99)) == 299
    whole = math.ceil if k / n < limit else math.floor
    states = [decided(make.rate(whole(k / n * t), t, **cut), limit) for t in (needed - 1, needed)]
    assert states[0] == OPEN != states[1]


def test_at_the_limit_itself_nothing_decides() -> None:
    assert limits.trials_to_decide(1, 100, 0.01, 0.95) is None
    assert limits.trials_to_decide(0, 100, 0.0, 0.95) is None
    assert "no number of trials" in limits.decide(make.rate(1, 100), 0.01, 0.95)[1]
    assert decided(make.rate(1, 100), 0.0) == FAIL


@pytest.mark.parametrize("limit", [0.5, 0.5 - 1e-12])
def test_too_many_trials_are_not_named(limit: float) -> None:
    metric = make.rate(10, 20).model_copy(update={"k": None, "ci": (-1e308, 0.9)})
    state, said = limits.decide(metric, limit, 0.95)
    assert state == OPEN and "no number of trials decides" in said


def test_rate_that_may_stop_holds_at_any_time() -> None:
    cut, bounds = make.rate(3, 60, cut=True), stopped_rate([Series(3, 60)], 0.95)
    assert limits.bounds(cut, 0.95) == (bounds.low, bounds.high, 0.95)
    assert shown(cut) == "3 of 60"
    assert decided(make.rate(0, 100), 0.04) == PASS
    assert decided(make.rate(0, 100, cut=False), 0.04) == OPEN


def test_auc_is_limited_on_both_sides_at_its_confidence() -> None:
    row = np.arange(200.0)
    for members, controls in ((row + 150, row), (row, row + 150)):
        assert decided(make.area(members, controls), 0.6) == FAIL
    same = make.area(row, row)
    assert decided(same, 0.7) == PASS
    state, said = limits.decide(same, 0.51, 0.95)
    assert state == OPEN and "would decide" in said
    assert decided(same, 0.9, 0.975) == PASS
    assert decided(same, 0.9, 0.99) == OPEN  # a run is not surer than its interval


HIT, RECALL, VERBATIM = (f"limit/submix/extraction.{m}" for m in ("hit_rate", "recall", "verbatim"))
BEYOND = "limit/submix/extraction.probability"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit(0.01, defense="submix", metric="hit_rate"), {HIT: PASS}),
        (Limit(0.01, attack="extr*"),
         {HIT: PASS, RECALL: OPEN, VERBATIM: OPEN, BEYOND: State.SKIPPED}),
        (Limit(1.0, metric="verbatim"), {VERBATIM: OPEN}),  # not measured
        # what guards nothing fails
        *((limit, None)
          for limit in (Limit(0.5, metric="hitrate"), Limit(0.5, defense="sub"),
                        Limit(1, attack="x"))),
    ],
)  # fmt: skip
def test_patterns_choose_what_is_limited(limit: Limit, expected: dict[str, State] | None) -> None:
    """What asks for more access than the release gives is not limited, whatever it measured."""
    for k in (0, 40, None):
        found = (make.rate(0, 500), make.rate(3, 100, "recall"), make.rate(None, metric="verbatim"),
                 make.rate(k, stronger_than_release=True, metric="probability"))  # fmt: skip
        releases = [("submix", make.release("submix", *found)), ("dp", make.release("dp"))]
        checks = list(limits.checks(limit, releases, 0.95))
        if expected is None:
            assert [check.state for check in checks] == [FAIL]
        else:
            assert {check.id: check.state for check in checks} == expected


@pytest.mark.parametrize(
    ("k", "untrained", "state"), [(0, "", PASS), (0, LOST, OPEN), (60, LOST, FAIL)]
)
def test_limit_is_not_met_by_untrained_secrets(k: int, untrained: str, state: State) -> None:
    releases = [("as_is", make.release("as_is", make.rate(k, untrained=untrained)))]
    assert [check.state for check in limits.checks(Limit(0.15), releases, 0.95)] == [state]


def test_withheld_trials_never_pass_a_limit() -> None:
    known = by_hand.finding(0.0, ci=(0.0, 0.0362), k=0)
    seen = withheld_rate(0, 100, 90)
    withheld = known.changed(ci=seen.ci, kind=seen.kind, withheld=90)
    assert (decided(known, 0.05), decided(withheld, 0.05)) == (PASS, OPEN)
    document = withheld.model_dump(mode="json")
    assert type(withheld).model_validate(document, context=FROM_FILE) == withheld
    with pytest.raises(ValueError, match=r"ends below the rate 0\.9"):
        type(withheld).model_validate({**document, "ci": (0.0, 0.0362)}, context=FROM_FILE)
