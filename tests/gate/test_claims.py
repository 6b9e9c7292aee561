"""Limits on claimed ε: no other unit, relation, basis, order or δ will do."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from audit.gate import claims
from audit.gate.outcome import State
from audit.gate.policy import ClaimLimit

ALLOWED = ClaimLimit(
    max_epsilon=2.0, unit="user", relation="add_or_remove", max_delta=1e-5, defense="dp_*"
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 2.000001}, "the claimed ε is 2"),
        ({"epsilon": None}, "unknown"),
        ({"epsilon": math.inf}, "no ε is claimed"),
        ({"unit": "record"}, "per record"),
        ({"unit": "part", "relation": "removed"}, "per part"),
        ({"relation": "replace"}, "(replace)"),
        ({"basis": "data-dependent"}, "data-dependent"),
        ({"alpha": 2.0, "delta": None}, "Rényi order 2"),
        ({"delta": 2e-5}, "δ = 2e-05"),
    ],
)
def test_what_is_not_the_allowed_claim_fails(
    changes: dict[str, Any], said: str, make: SimpleNamespace
) -> None:
    reason = claims.unsatisfied(ALLOWED, make.claim(**changes))
    assert reason is not None and said in reason


def test_what_is_satisfies(make: SimpleNamespace) -> None:
    assert claims.unsatisfied(ALLOWED, make.claim()) is None
    assert claims.unsatisfied(ALLOWED, make.claim(0.5, delta=None)) is None
    also = make.claim(relation="replace", also=["add_or_remove"])
    assert claims.unsatisfied(ALLOWED, also) is None


def test_a_renyi_claim_has_its_own_limit(make: SimpleNamespace) -> None:
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
    limit = ClaimLimit(
        2.0, "part", "removed", basis="data-dependent", alpha=2.0
    )  # fmt: skip
    assert claims.unsatisfied(limit, make.claim(**part, delta=None)) is None


def test_only_what_the_pattern_names_is_limited(make: SimpleNamespace) -> None:
    releases = [
        ("dp_sgd", make.release("dp_sgd")),
        ("submix", make.release("submix", guarantee=make.claim(9.0))),
    ]
    (check,) = claims.checks(ALLOWED, releases)
    assert (check.id, check.state) == ("claim/dp_sgd", State.PASS)
    (check,) = claims.checks(ALLOWED, releases[1:])
    assert check.state == State.FAIL and "no audited release" in check.sentence
