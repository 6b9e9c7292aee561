"""Limits on claimed ε: no other unit, relation, basis, order or δ will do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from audit.core.defense import Defense
from audit.gate import claims, verdict
from audit.gate.outcome import State
from audit.gate.policy import ClaimLimit, Policy
from audit.plan.plan import Chosen
from audit.plugins import registry
from tests.gate import make

ALLOWED = ClaimLimit(
    max_epsilon=2.0, unit="user", relation="add_or_remove", max_delta=1e-5, defense="dp_*"
)


RENYI = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
OF_PART = ClaimLimit(2.0, "part", "removed", basis="data-dependent", alpha=2.0)


@pytest.mark.parametrize(
    ("limit", "changes", "said"),
    [
        *((ALLOWED, changes, said) for changes, said in (
            ({"epsilon": 2.000001}, "the claimed ε is 2.00001;"),
            ({"epsilon": None}, "unknown"),
            ({"epsilon": math.inf}, "no ε is claimed"),
            ({"unit": "record"}, "per record"),
            ({"unit": "part", "relation": "removed"}, "per part"),
            ({"relation": "replace"}, "(replace)"),
            ({"basis": "data-dependent"}, "data-dependent"),
            ({"alpha": 2.0, "delta": None}, "Rényi order 2"),
            ({"delta": 2e-5}, "δ = 2 × 10⁻⁵"),
            ({}, None),
            ({"epsilon": 0.5, "delta": None}, None),
            ({"relation": "replace", "also": ["add_or_remove"]}, None),
        )),
        (OF_PART, {**RENYI, "delta": None}, None),  # a Rényi claim has its own limit
    ],
)  # fmt: skip
def test_only_the_allowed_claim_satisfies(
    limit: ClaimLimit, changes: dict[str, Any], said: str | None
) -> None:
    reason = claims.unsatisfied(limit, make.claim(**changes))
    assert (reason is None) == (said is None) and (said or "") in (reason or "")


def test_only_what_the_pattern_names_is_limited() -> None:
    releases = [
        ("dp_sgd", make.release("dp_sgd")),
        ("submix", make.release("submix", guarantee=make.claim(9.0))),
    ]
    (check,) = claims.checks(ALLOWED, releases)
    assert (check.id, check.state) == ("claim/dp_sgd", State.PASS)
    (check,) = claims.checks(ALLOWED, releases[1:])
    assert check.state == State.FAIL and "no audited release" in check.sentence


# where the noise comes from


@pytest.mark.parametrize(
    ("parameters", "state"),
    [
        ({"noise": "system"}, State.PASS),
        ({"source": "system"}, State.PASS),
        ({"noise": "laplace", "source": "system"}, State.PASS),  # as seqpate names them
        ({"noise": "seed"}, State.FAIL),
        ({"source": "seed"}, State.FAIL),
        ({"noise": "laplace", "source": "seed"}, State.FAIL),
        ({}, State.FAIL),
        ({"noise": None}, State.FAIL),
        ({"noise": ["system"]}, State.FAIL),
    ],
)
def test_noise_comes_from_where_it_must(parameters: dict[str, Any], state: State) -> None:
    limit = replace(ALLOWED, noise="system")
    releases = [("dp_sgd", make.release("dp_sgd", parameters=parameters))]
    (check,) = claims.checks(limit, releases)
    assert check.state == state
    assert state == State.PASS or "the noise must come from 'system'" in check.sentence
    (check,) = claims.checks(ALLOWED, releases)
    assert check.state == State.PASS  # unless it is asked for, it may come from anywhere


def test_the_defenses_say_where_their_noise_comes_from() -> None:
    """In a parameter that the limit reads: another name for it would never satisfy it."""
    for name in ("dp_sgd", "s_dpsgd", "seqpate", "submix", "gnmax", "pmixed"):
        _, made = registry.build("defenses", name, Defense, {})  # type: ignore[type-abstract]
        shown = Chosen(name, made).shown
        assert claims.source({**shown}) == "seed", name


# several releases of one corpus


def several(*epsilons: float | None) -> Any:
    return [
        (f"dp_sgd:{i}", make.release("dp_sgd", parameters={"i": i}, guarantee=make.claim(e)))
        for i, e in enumerate(epsilons)
    ]


@pytest.mark.parametrize(
    ("epsilons", "state"),
    [
        ((1.0, 1.5), State.PASS),
        ((1.0,), State.PASS),
        ((1.0, 1.5, 0.1), State.FAIL),
        ((0.1,) * 25, State.PASS),  # 2.5, not a hair more
        ((0.1,) * 26, State.FAIL),
        ((1.0, None), State.FAIL),
        ((1.0, math.inf), State.FAIL),
    ],
)
def test_releases_of_one_corpus_stay_below_a_total(
    epsilons: tuple[float | None, ...], state: State
) -> None:
    """Everyone whose data is in all of them is promised the sum."""
    limit = replace(ALLOWED, max_total=2.5)
    *each, total = claims.checks(limit, several(*epsilons))
    assert len(each) == len(epsilons)
    assert (total.id, total.state) == ("claim/dp_*/total", state)
    assert len(claims.checks(ALLOWED, several(*epsilons))) == len(epsilons)


@pytest.mark.parametrize(("most", "code"), [(3.0, 0), (2.9, 1)])
def test_the_gate_adds_up_all_seeds_and_no_reference(most: float, code: int) -> None:
    system = {"parameters": {"noise": "system"}, "guarantee": make.claim(1.5)}
    audited = [make.release("dp_sgd", make.rate(0), seed=seed, **system) for seed in (0, 1)]
    none = make.release("dp_none", reference=True, guarantee=make.claim(math.inf))
    limit = replace(ALLOWED, max_total=most, noise="system", line=9)
    policy = Policy(claim=(limit,), empirical=False, leaks=True)
    outcome = verdict(make.run(*audited, none), policy, None, make.TODAY)
    held = [check for check in outcome.checks if check.rule == "claim"]
    assert [check.id for check in held] == [
        "claim/dp_sgd:seed=0", "claim/dp_sgd:seed=1", "claim/dp_*/total",
    ]  # fmt: skip
    assert {check.line for check in held} == {9}
    assert "2 releases together: ε = 3 nats per user (add_or_remove)" in held[-1].sentence
    assert outcome.exit_code == code


def test_a_total_of_nothing_fails_as_every_rule_does() -> None:
    (check,) = claims.checks(replace(ALLOWED, max_total=2.5), [])
    assert (check.state, check.subject) == (State.FAIL, "")
