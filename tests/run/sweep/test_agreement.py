"""What the seeds of a setting say together: no more false alarms than one run, and more power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.findings.verdict import claim_overall, leaked_overall
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
        "leaked": "no leak found",
        "sentence": "seen",
        "claim": "not refuted",
        "claim_sentence": "It holds.",
    }
    return FindingResult(**{**fields, **changes})


def release(
    findings: Sequence[FindingResult],
    seed: int = 0,
    epsilon: float = math.inf,
    tests: int = 0,
    claim_tests: int = 0,
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
        claim_tests=claim_tests or tests or len(findings),
        leaked=leaked_overall(findings),
        claim=claim_overall(findings, claim.claim),
    )


def together(*ps: float | None, tests: int = 1, **changes: Any) -> str:
    """What leaked over seeds with these p-values of one test."""
    seeds = [release([finding("a", p, **changes)], seed=i, tests=tests) for i, p in enumerate(ps)]
    (cell,) = cells(seeds)
    assert cell.leaked == leaked_overall(cell.findings)
    return str(cell.findings[0].leaked)


def test_weak_signs_in_all_seeds_are_a_leak_and_a_strong_one_in_few_of_many_is_not() -> None:
    assert together(0.08, 0.08, 0.08) == "leak"
    assert together(0.6, 0.004, 0.7, 0.5, 0.9) == "no leak found"
    assert together(0.6, 0.004, 0.7, 0.5, 0.9, leaked="leak") == "inconclusive"
    assert together(1e-7, 0.7, 0.5, 0.9) == "leak"


def test_silence_needs_every_seed_and_no_sign_of_all_together() -> None:
    assert together(0.3, 0.4, 0.5) == "no leak found"
    assert together(*[0.2] * 20, tests=9) == "inconclusive"  # 8.6e-3
    assert together(0.03, 0.03, 0.03, tests=40) == "inconclusive"  # 1.8e-3
    unread = finding("a", None, value=None, leaked="not measured")
    for other, word in (("no leak found", "inconclusive"), ("inconclusive", "inconclusive")):
        seeds = [release([finding("a", 0.5, leaked=other)]), release([unread], seed=1)]
        assert cells(seeds)[0].findings[0].leaked == word
    seeds = [release([unread], seed=i) for i in range(2)]
    assert cells(seeds)[0].findings[0].leaked == cells(seeds)[0].leaked == "not measured"


def test_a_seed_that_could_not_make_the_test_counts_against_it() -> None:
    assert together(0.03, 0.03) == "leak"
    assert together(0.03, 0.03, None, None) == "no leak found"  # 0.081; of the two alone 7.2e-3
    ps = (0.03, 0.2, None)
    seeds = [release([finding("a", p)], seed=i) for i, p in enumerate(ps)]
    assert agreement(seeds).p_values == {"a": pytest.approx(combined_p_value([0.03, 0.2, 1.0]))}
    assert together(0.1, 0.1, None, None) == "no leak found"
    assert together(0.05, 0.05, tests=4) == "inconclusive"  # 0.017


def test_p_values_are_adjusted_for_the_tests_of_one_release() -> None:
    assert together(0.03, 0.03, tests=1) == "leak"  # 7.2e-3
    assert together(0.03, 0.03, tests=6) == "leak"
    assert together(0.03, 0.03, tests=7) == "inconclusive"


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("value", [0.4, 0.6])
def test_a_rejected_test_is_a_leak_whatever_the_mean_looks_like(sides: int, value: float) -> None:
    for word in ("no leak found", "inconclusive", "leak"):
        assert together(1e-6, 1e-6, value=value, sides=sides, leaked=word) == "leak"


def test_a_test_without_a_value_that_all_seeds_reject_together_is_a_leak() -> None:
    """Ranks known within bounds only: no seed by itself finds a leak, and all of them do."""
    unread = {"value": None, "ci": None, "leaked": "not measured"}
    assert together(0.03, 0.03, 0.03, tests=3, **unread) == "leak"
    assert together(0.03, 0.03, 0.03, tests=90, **unread) == "not measured"
    beside = finding("b", 1e-6).model_copy(update={"test": "a"})
    read = [release([finding("a", 1e-6, **unread), beside], seed=i) for i in range(2)]
    words = {f.metric: f.leaked for f in cells(read)[0].findings}
    assert words == {"a": "not measured", "b": "leak"}  # the other measure shows it


def test_what_can_be_told_without_the_model_is_no_leak_where_no_coin_chose() -> None:
    blind = Control(value=0.9, ci=(0.85, 0.95), n=100)
    assert together(1e-6, 1e-6, 1e-6, blind=blind) == "leak"  # by accident of fair coins
    told = {"blind": blind, "fair_coins": False, "leaked": "inconclusive"}
    assert together(1e-6, 1e-6, 1e-6, **told) == "inconclusive"
    apart = {"blind": blind.model_copy(update={"ci": (0.4, 0.6)}), "fair_coins": False}
    assert together(1e-6, 1e-6, 1e-6, **apart) == "leak"


def test_under_the_null_a_setting_is_called_a_leak_as_rarely_as_one_run() -> None:
    """Five independent tests, three seeds: Holm's level is nearly reached, and never passed."""
    rng, times = np.random.default_rng(0), 1200
    wrong = 0
    for ps in rng.random((times, 3, 5)):
        seeds = [
            release([finding(f"t{j}", p) for j, p in enumerate(row)], i) for i, row in enumerate(ps)
        ]
        wrong += bool(agreement(seeds).rejections.leaking)
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
        guesses=[(r, v)],
    )


def claimed(epsilon: float, *right: int, claim_tests: int = 1) -> str:
    m = r = 60
    seeds = [
        release(
            [finding("a", p_value(0.0, m, r, v, 0.0), epsilon_lower=bound(m, r, v))],
            seed=i,
            epsilon=epsilon,
            claim_tests=claim_tests,
        )
        for i, v in enumerate(right)
    ]
    (cell,) = cells(seeds)
    assert cell.claim == cell.findings[0].claim
    return str(cell.claim)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_claim_falls_by_all_seeds_together(epsilon: float) -> None:
    """Randomised response at ε is right in e^ε/(1 + e^ε) of its guesses, the most it may be."""
    allowed = 60 * math.exp(epsilon) / (1 + math.exp(epsilon))
    most, few = math.ceil(allowed + 4.5), math.floor(allowed)
    assert p_value(epsilon, 60, 60, most, 0.0) > 0.05  # by itself none refutes it
    assert claimed(epsilon, most, most, most, most) == "refuted"
    assert claimed(epsilon, most, few, few, few) == "not refuted"
    assert claimed(epsilon, most, most, most, most, claim_tests=40) == "not refuted"


def test_a_true_claim_is_refuted_in_one_setting_of_twenty_at_most() -> None:
    rng, epsilon, times = np.random.default_rng(1), 1.0, 1200
    right = rng.binomial(60, math.exp(epsilon) / (1 + math.exp(epsilon)), (times, 3))
    refuted = sum(claimed(epsilon, *map(int, row)) == "refuted" for row in right)
    assert 0.01 <= refuted / times <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / times)


def answered(claim: str, *, epsilon: float = 1.0, **changes: Any) -> tuple[str, str]:
    """What two quiet seeds say of a claim together, each by itself having said `claim`."""
    seeds = [
        release([finding("a", 0.5, claim=claim, **changes)], seed=i, epsilon=epsilon)
        for i in range(2)
    ]
    (found,) = cells(seeds)[0].findings
    return str(found.claim), found.claim_sentence


def test_a_claim_that_no_seed_could_test_is_not_called_kept() -> None:
    assert answered("not testable") == ("not testable", "It holds.")
    assert answered("nothing claimed", epsilon=math.inf)[0] == "nothing claimed"
    word, said = answered("not refuted")
    assert word == "not refuted" and "Of 2 seeds, each by itself: not refuted in 2." in said
    word, said = answered("refuted")  # each alone, and not together: by chance
    assert word == "not refuted" and "refuted in 2" in said


def test_a_claim_of_zero_counts_every_test_that_finds_a_leak() -> None:
    """It is refuted by any of them, so as many are declared as of leaks."""
    zero = {"epsilon": 0.0, "tests": 20, "claim_tests": 1}
    for p, word in ((0.02, "not refuted"), (0.005, "refuted")):  # together 3.5e-3 and 2.9e-4
        seeds = [release([finding("a", p)], seed=i, **zero) for i in range(2)]
        assert cells(seeds)[0].findings[0].claim == word
