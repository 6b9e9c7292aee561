"""What the seeds of a setting say together: no more false alarms than one run, and more power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.results.schema import (
    Control,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Power,
    ReleaseResult,
)
from audit.run.sweep.agreement import agreement
from audit.run.sweep.over_seeds import cells
from audit.statistics.fisher import combined_p_value
from audit.statistics.one_run import epsilon_lower, p_value


def finding(test: str, p: float | None, **changes: Any) -> FindingResult:
    fields: dict[str, Any] = {
        "attack": "membership",
        "metric": test,
        "access": "score",
        "unit": "AUC",
        "value": 0.6,
        "ci": (0.4, 0.8),
        "confidence": 0.95,
        "method": "DeLong",
        "k": None,
        "n": 100,
        "chance": 0.5,
        "control": None,
        "p_value": p,
        "test": test,
        "epsilon_lower": None,
        "power": Power(smallest_rate=None, largest_epsilon=None, n=100),
        "verdict": "silent",
        "sentence": "seen",
    }
    return FindingResult(**{**fields, **changes})


def release(
    findings: Sequence[FindingResult], seed: int = 0, epsilon: float = math.inf, tests: int = 0
) -> ReleaseResult:
    claim = GuaranteeResult(
        epsilon=epsilon,
        delta=0.0,
        alpha=None,
        unit="user",
        relation="add_or_remove",
        release="model",
        basis="worst case",
        theorem="a theorem",
        conditions=[],
        published_epsilon=None,
    )
    return ReleaseResult(
        defense="none",
        parameters={},
        seed=seed,
        reference=False,
        role="audited",
        guarantee=claim,
        utility={},
        cost=Cost(train_tokens=1, queries=1, seconds=1.0),
        sessions=[],
        findings=list(findings),
        tests=tests or len(findings),
    )


def together(*ps: float | None, tests: int = 1, **changes: Any) -> str:
    """The verdict over seeds with these p-values of one test."""
    seeds = [release([finding("a", p, **changes)], seed=i, tests=tests) for i, p in enumerate(ps)]
    return str(cells(seeds)[0].findings[0].verdict)


def test_weak_signs_in_all_seeds_are_a_leak_and_a_strong_one_in_few_of_many_is_not() -> None:
    assert together(0.08, 0.08, 0.08) == "consistent"
    assert together(0.6, 0.004, 0.7, 0.5, 0.9) == "silent"
    assert together(0.6, 0.004, 0.7, 0.5, 0.9, verdict="consistent") == "inconclusive"
    assert together(1e-7, 0.7, 0.5, 0.9) == "consistent"


def test_silence_needs_every_seed_and_no_sign_of_all_together() -> None:
    assert together(0.3, 0.4, 0.5) == "silent"
    assert together(*[0.2] * 20, tests=9) == "inconclusive"  # 8.6e-3
    assert together(0.03, 0.03, 0.03, tests=40) == "inconclusive"  # 1.8e-3
    unread = finding("a", None, value=None, verdict="not measured")
    seeds = [release([finding("a", 0.5)]), release([unread], seed=1)]
    assert cells(seeds)[0].findings[0].verdict == "inconclusive"


def test_a_seed_that_could_not_make_the_test_counts_against_it() -> None:
    assert together(0.03, 0.03) == "consistent"
    assert together(0.03, 0.03, None, None) == "silent"  # 0.081; of the two alone 7.2e-3
    ps = (0.03, 0.2, None)
    seeds = [release([finding("a", p)], seed=i) for i, p in enumerate(ps)]
    assert agreement(seeds).p_values == {"a": pytest.approx(combined_p_value([0.03, 0.2, 1.0]))}
    assert together(0.1, 0.1, None, None) == "silent"
    assert together(0.05, 0.05, tests=4) == "inconclusive"  # 0.017


def test_p_values_are_adjusted_for_the_tests_of_one_release() -> None:
    assert together(0.03, 0.03, tests=1) == "consistent"  # 7.2e-3
    assert together(0.03, 0.03, tests=6) == "consistent"
    assert together(0.03, 0.03, tests=7) == "inconclusive"


def test_what_is_no_better_than_chance_is_no_leak() -> None:
    assert together(1e-6, 1e-6, value=0.4) == "silent"
    assert together(1e-6, 1e-6, value=0.4, sides=2) == "consistent"


def test_what_can_be_told_without_the_model_is_no_leak() -> None:
    blind = Control(value=0.9, ci=(0.85, 0.95), n=100)
    assert together(1e-6, 1e-6, 1e-6, blind=blind) == "silent"


def test_under_the_null_a_setting_is_called_a_leak_as_rarely_as_one_run() -> None:
    """Five independent tests, three seeds: Holm's level is nearly reached, and never passed."""
    rng, times = np.random.default_rng(0), 1200
    wrong = 0
    for ps in rng.random((times, 3, 5)):
        seeds = [
            release([finding(f"t{j}", p) for j, p in enumerate(row)], i) for i, row in enumerate(ps)
        ]
        wrong += bool(agreement(seeds).leaking)
    slack = 3.5 * math.sqrt(0.05 * 0.95 / times)
    assert 0.05 - slack <= wrong / times <= 0.05 + slack


def bound(m: int, r: int, v: int) -> EpsilonLower:
    return EpsilonLower(
        value=epsilon_lower(m, r, v, 0.0),
        method="one_run",
        hypothesis="none",
        unit="user",
        relation="add_or_remove",
        delta=0.0,
        m=m,
        r=r,
        v=v,
    )


def claimed(epsilon: float, *right: int) -> str:
    m = r = 60
    seeds = [
        release(
            [finding("a", p_value(0.0, m, r, v, 0.0), epsilon_lower=bound(m, r, v))], i, epsilon
        )
        for i, v in enumerate(right)
    ]
    return str(cells(seeds)[0].findings[0].verdict)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_claim_falls_by_all_seeds_together(epsilon: float) -> None:
    """Randomised response at ε is right in e^ε/(1 + e^ε) of its guesses, the most it may be."""
    allowed = 60 * math.exp(epsilon) / (1 + math.exp(epsilon))
    most, few = math.ceil(allowed + 4.5), math.floor(allowed)
    assert p_value(epsilon, 60, 60, most, 0.0) > 0.05  # by itself none refutes it
    assert claimed(epsilon, most, most, most, most) == "refuted"
    assert claimed(epsilon, most, few, few, few) == "consistent"


def test_a_true_claim_is_refuted_in_one_setting_of_twenty_at_most() -> None:
    rng, epsilon, times = np.random.default_rng(1), 1.0, 1200
    right = rng.binomial(60, math.exp(epsilon) / (1 + math.exp(epsilon)), (times, 3))
    refuted = sum(claimed(epsilon, *map(int, row)) == "refuted" for row in right)
    assert 0.01 <= refuted / times <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / times)
