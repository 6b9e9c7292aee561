"""Limits on utility, against references of the same run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.gate import utilities, verdict
from audit.gate.outcome import State
from audit.gate.policy import Policy, UtilityLimit
from tests.gate import make


def state(limit: UtilityLimit, *, public: bool = True) -> State:
    used = {"perplexity": make.measure(10, 9, 11), "top1_accuracy": make.measure(0.5, 0.48, 0.52)}
    beside = {
        "perplexity": make.measure(20, 19, 21),
        "top1_accuracy": make.measure(0.4, 0.39, 0.41),
    }
    releases = [make.release("submix", utility=used)]
    if public:
        releases.append(make.release("public", utility=beside, reference=True))
    outcome = verdict(make.run(*releases), Policy(utility=(limit,), empirical=False),
                      None, make.TODAY)  # fmt: skip
    (check,) = outcome.checks
    return check.state


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.6, State.PASS), (0.51, State.INCONCLUSIVE), (0.4, State.FAIL), (1.0, State.PASS)],
)
def test_perplexity_at_most_so_many_times_the_public_models(ratio: float, expected: State) -> None:
    assert state(UtilityLimit(max_ratio=ratio)) == expected


def test_accuracy_at_least_so_many_times() -> None:
    accuracy = UtilityLimit(metric="top1_accuracy", min_ratio=1.1)
    assert state(accuracy) == State.PASS
    assert state(UtilityLimit(metric="top1_accuracy", min_ratio=1.25)) == State.INCONCLUSIVE
    assert state(UtilityLimit(metric="top1_accuracy", min_ratio=1.5)) == State.FAIL


def test_each_seed_has_its_own_yardstick() -> None:
    used = {"perplexity": make.measure(10, 9.9, 10.1)}
    beside = {
        seed: {"perplexity": make.measure(v, v - 0.1, v + 0.1)} for seed, v in enumerate((5, 20))
    }
    releases = [make.release("submix", utility=used, seed=seed) for seed in (0, 1, 2)]
    releases += [make.release("public", utility=beside[s], seed=s, reference=True) for s in beside]
    policy = Policy(utility=(UtilityLimit(max_ratio=1.0),), empirical=False)
    outcome = verdict(make.run(*releases), policy, None, make.TODAY)
    assert [check.state for check in outcome.checks] == [
        State.FAIL, State.PASS, State.INCONCLUSIVE,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected", "named"),
    [
        ((5, 50), State.FAIL, {4}),
        ((50, 5), State.FAIL, {8}),
        ((50, 60), State.PASS, {4, 8}),
        ((50, None), State.INCONCLUSIVE, {8}),
    ],
)
def test_each_setting_of_the_yardstick_is_one(
    values: tuple[float | None, ...], expected: State, named: set[int]
) -> None:
    def used(value: float | None) -> dict[str, object]:
        return {} if value is None else {"perplexity": make.measure(value, value - 1, value + 1)}

    beside = [
        make.release("submix", parameters={"k": k}, utility=used(value))
        for k, value in zip((4, 8), values, strict=True)
    ]
    limit = UtilityLimit(defense="dp_sgd", of="submix", max_ratio=1.0)
    policy = Policy(utility=(limit,), empirical=False)
    run = make.run(make.release("dp_sgd", utility=used(20)), *beside)
    (check,) = verdict(run, policy, None, make.TODAY).checks
    assert check.state == expected
    assert {k for k in (4, 8) if f"submix:k={k}" in check.sentence} == named


def test_where_a_reference_has_the_name_it_alone_is_the_yardstick() -> None:
    """`public:pseudo=true` beside the plain `public` is another model."""
    used = [{"perplexity": make.measure(v, 0.99 * v, 1.01 * v)} for v in (20, 10, 40)]
    plain = make.release("public", parameters={"pseudo": False}, utility=used[2], reference=True)
    tuned = make.release("public", parameters={"pseudo": True}, utility=used[1])
    limit = UtilityLimit(defense="dp_sgd", max_ratio=1.0)
    run = make.run(make.release("dp_sgd", utility=used[0]), tuned, plain)
    (check,) = verdict(run, Policy(utility=(limit,), empirical=False), None, make.TODAY).checks
    assert check.state == State.PASS, check.sentence


def test_without_yardstick_or_measure_nothing_is_decided() -> None:
    assert state(UtilityLimit(max_ratio=1.0), public=False) == State.INCONCLUSIVE
    assert state(UtilityLimit(max_ratio=1.0, of="nobody")) == State.INCONCLUSIVE
    assert state(UtilityLimit(metric="bleu", max_ratio=1.0)) == State.FAIL  # as if misspelt
    assert state(UtilityLimit(defense="sub", max_ratio=1.0)) == State.FAIL


def test_bounds_on_a_ratio_err_no_more_than_they_say(generator: np.random.Generator) -> None:
    """Two log-normal estimates with known errors: each bound misses in 5 %."""
    true, low_misses, high_misses, times = 1.7, 0, 0, 4000
    errors = (0.05, 0.12)
    for noise in generator.normal(size=(times, 2)):
        one, other = (
            make.measure(*(center * math.exp(e * z + e * t) for t in (0.0, -1.959964, 1.959964)))
            for center, e, z in zip((true, 1.0), errors, noise, strict=True)
        )
        bounds = utilities.ratio(one, other, 0.95)
        assert bounds is not None
        low_misses += bounds[0] > true
        high_misses += bounds[1] < true
    for misses in (low_misses, high_misses):
        assert 0.035 < misses / times < 0.065


def test_no_ratio_of_what_is_not_positive() -> None:
    fine = make.measure(1, 0.5, 2)
    assert utilities.ratio(make.measure(0.5, 0, 1), fine, 0.95) is None
    assert utilities.ratio(fine, make.measure(1, 0.5, math.inf), 0.95) is None
