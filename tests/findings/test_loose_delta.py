"""A δ of 1/N or more is named; N is the population, or what the corpus has of the unit."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.findings.loose_delta import loose_delta
from tests.findings.by_hand import promise


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        ({"delta": 0.01}, 100),
        ({"delta": 0.0099}, None),
        ({"delta": 0.002, "unit": "record"}, 500),
        ({"delta": 0.0019, "unit": "record"}, None),
        ({"delta": 0.01, "population": 99}, None),
        ({"delta": 0.0101, "population": 100}, 100),
        ({"delta": None}, None),
        ({"delta": 0.5, "epsilon": math.inf}, None),
        ({"delta": 0.5, "epsilon": None}, None),
    ],
)
def test_delta_of_one_in_n_is_named(changes: dict[str, Any], n: int | None) -> None:
    claim = promise(**{"epsilon": 2.0, **changes})
    said = loose_delta(claim, users=100, records=500)
    assert f"(N = {n})" in said if n else said == ""
