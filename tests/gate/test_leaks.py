"""The default policy: what is a leak, what is silence, and when a claim is exceeded."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from audit.gate import verdict
from audit.gate.leaks import empirical_check, leak_checks
from audit.gate.outcome import State
from audit.gate.policy import Limit, Policy
from audit.results.schema import ReleaseResult


def states(make: SimpleNamespace, release: ReleaseResult) -> dict[str, State]:
    outcome = verdict(make.run(release), Policy(), None, make.today)
    return {check.id: check.state for check in outcome.checks}


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("refuted", State.FAIL),
        ("consistent", State.FAIL),
        ("not comparable", State.FAIL),
        ("silent", State.PASS),
        ("inconclusive", State.INCONCLUSIVE),
    ],
)
def test_verdicts_decide(word: str, state: State, make: SimpleNamespace) -> None:
    found = states(make, make.release("submix", make.rate(1, verdict=word)))
    assert found["leak/submix/extraction.hit_rate"] == state


def test_what_asks_more_than_the_release_gives_is_no_leak_of_it(make: SimpleNamespace) -> None:
    beyond = make.rate(40, verdict="not comparable", stronger_than_release=True)
    found = states(make, make.release("submix", beyond))
    assert found["leak/submix/extraction"] == State.SKIPPED
    assert State.FAIL not in found.values()
    both = make.release("submix", beyond, make.rate(0, metric="recall"))
    assert states(make, both)["leak/submix/extraction.recall"] == State.PASS


def test_an_attack_that_measured_nothing_is_not_silence(make: SimpleNamespace) -> None:
    outcome = verdict(make.run(make.release("x", make.rate(None))), Policy(), None, make.today)
    assert outcome.checks[0].state == State.INCONCLUSIVE
    assert (outcome.state, outcome.exit_code) == (State.INCONCLUSIVE, 0)


def test_references_are_never_gated(make: SimpleNamespace) -> None:
    leaky = make.release("none", make.rate(90, verdict="refuted"), reference=True)
    outcome = verdict(make.run(leaky), Policy(), None, make.today)
    assert outcome.checks == ()
    assert outcome.state == State.INCONCLUSIVE  # nothing was gated: no reason to be calm
    asked_for = make.release("none", make.rate(90, verdict="consistent"))
    assert verdict(make.run(asked_for), Policy(), None, make.today).exit_code == 1


def test_leaks_fail_unless_something_else_says_how_much_may_leak(make: SimpleNamespace) -> None:
    leaky = make.run(make.release("x", make.rate(5, verdict="consistent")))

    def state(policy: Policy) -> State:
        return verdict(leaky, replace(policy, empirical=False), None, make.today).state

    assert state(Policy()) == State.FAIL
    assert state(Policy(limit=(Limit(0.5),))) == State.PASS
    assert state(Policy(limit=(Limit(0.5),), leaks=True)) == State.FAIL
    assert state(Policy(leaks=False)) == State.INCONCLUSIVE


def claimed(make: SimpleNamespace, found: float, word: str = "silent", **claim: object) -> State:
    finding = make.rate(0, epsilon_lower=make.bound(found), verdict=word)
    release = make.release("dp_sgd", finding, guarantee=make.claim(**claim))
    return empirical_check("dp_sgd", release).state


def test_more_than_claimed_fails_once_it_is_beyond_doubt(make: SimpleNamespace) -> None:
    assert claimed(make, 3.0, "refuted") == State.FAIL
    assert claimed(make, 3.0) == State.INCONCLUSIVE
    assert claimed(make, 1.9) == State.PASS


def test_bounds_of_another_kind_say_nothing_of_the_claim(make: SimpleNamespace) -> None:
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
    assert claimed(make, 9.0, "not comparable", **part) == State.SKIPPED
    assert claimed(make, 9.0, "not comparable", delta=1e-3) == State.SKIPPED  # allows more δ
    assert claimed(make, 9.0, "consistent", epsilon=math.inf) == State.SKIPPED
    assert claimed(make, 9.0, "not comparable", epsilon=None) == State.SKIPPED


def test_a_delta_that_was_rounded_up_is_still_the_same_delta(make: SimpleNamespace) -> None:
    assert claimed(make, 1.9, delta=1.00001e-5) == State.PASS
    assert claimed(make, 1.9, delta=1.0001e-5) == State.SKIPPED


def test_a_claim_nobody_measured_is_open(make: SimpleNamespace) -> None:
    release = make.release("dp_sgd", make.rate(0))
    assert empirical_check("dp_sgd", release).state == State.INCONCLUSIVE
    for found in (0.5, 9.0):
        beyond = make.rate(0, epsilon_lower=make.bound(found), stronger_than_release=True)
        assert empirical_check("x", make.release("x", beyond)).state == State.INCONCLUSIVE


def able(make: SimpleNamespace, largest: float | None, epsilon: float, **bound: object) -> State:
    """A claim that nothing speaks against; largest: what could have been shown at best."""
    finding = make.rate(0, epsilon_lower=make.bound(0.0, **bound))
    finding = finding.model_copy(
        update={"power": finding.power.model_copy(update={"largest_epsilon": largest})}
    )
    release = make.release("dp_sgd", finding, guarantee=make.claim(epsilon), tests=1)
    return empirical_check("dp_sgd", release).state


def test_a_claim_that_nothing_could_have_refuted_is_not_upheld(make: SimpleNamespace) -> None:
    assert able(make, 1.8, 100.0) == State.INCONCLUSIVE
    assert able(make, 1.8, 1.8) == State.INCONCLUSIVE
    assert able(make, 1.8, 1.79) == State.PASS
    assert able(make, None, 0.1) == State.INCONCLUSIVE
    finding = make.rate(0, epsilon_lower=make.bound(0.0))
    said = empirical_check("x", make.release("x", finding, guarantee=make.claim(9.0))).sentence
    assert said.endswith("so few trials could show 3 at most")


@pytest.mark.parametrize(("method", "best"), [
    ({"m": 60, "r": 40, "v": 20, "delta": 0.0}, 2.554),  # q^40 = 0.05
    ({"method": "rank", "rank": 5e4, "space": 1e5, "n": 1, "delta": 0.0}, math.log(0.05 * 1e5)),
    ({"method": "rank", "rank": 5e4, "space": 1e5, "n": 9, "delta": 0.0}, math.log(0.025 * 1e5)),
])  # fmt: skip
@pytest.mark.parametrize("tests", [1, 4, 20])
def test_what_could_have_been_shown_is_adjusted_for_all_tests(
    method: dict[str, object], best: float, tests: int, make: SimpleNamespace
) -> None:
    """At 0.05/tests all guesses right, or rank 1, refute less than at 0.05."""
    if "m" in method:
        q = (0.05 / tests) ** (1 / 40)
        adjusted = math.log(q / (1 - q))
        assert tests > 1 or adjusted == pytest.approx(best, abs=1e-4)
    else:
        adjusted = best - math.log(tests)
    finding = make.rate(0, epsilon_lower=make.bound(0.0, **method))
    finding = finding.model_copy(
        update={"power": finding.power.model_copy(update={"largest_epsilon": best})}
    )
    states = []
    for epsilon in (adjusted - 0.01, adjusted + 0.01):
        claim = make.claim(epsilon, delta=None)
        release = make.release("dp_sgd", finding, guarantee=claim, tests=tests)
        states.append(empirical_check("dp_sgd", release).state)
    assert states == [State.PASS, State.INCONCLUSIVE]


def test_one_finding_that_could_refute_the_claim_is_enough(make: SimpleNamespace) -> None:
    few = make.rate(0, epsilon_lower=make.bound(0.0))  # at most 3
    many = few.model_copy(
        update={"metric": "recall", "power": few.power.model_copy(update={"largest_epsilon": 9.0})}
    )
    unknown = many.model_copy(update={"untrained": "It was not trained on."})
    for others, state in (([many], State.PASS), ([unknown], State.INCONCLUSIVE)):
        release = make.release("dp_sgd", few, *others, guarantee=make.claim(5.0))
        assert empirical_check("dp_sgd", release).state == state


def test_each_attack_is_told_apart(make: SimpleNamespace) -> None:
    other = make.rate(None, attack="exposure", metric="exposure_1_copy")
    checks = list(leak_checks("x", make.release("x", make.rate(0), other)))
    assert [(c.subject, c.state) for c in checks] == [
        ("extraction.hit_rate", State.PASS),
        ("exposure", State.INCONCLUSIVE),
    ]
