"""What a guarantee for one user is for a group of users who share a text."""

from __future__ import annotations

import math

import pytest

from audit.results.schema import GuaranteeResult
from audit.run.group_text import of_group
from tests.findings.by_hand import promise


def claim(epsilon: float, delta: float = 1e-6, **changes: object) -> GuaranteeResult:
    return GuaranteeResult.of(promise(epsilon, delta=delta, **changes))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_group_has_the_sum_of_the_steps_between_its_members(n: int) -> None:
    """Removing n users one after the other: ε adds up, and each δ grows by all ε before it."""
    grown = sum(1e-6 * math.exp(i * 0.5) for i in range(n))
    ceiling = math.ceil(grown / 10 ** math.floor(math.log10(grown)) * 100) / 100
    mantissa = f"{ceiling:g}"
    assert of_group(claim(0.5), n).startswith(f"{0.5 * n:g} nats at δ = ")
    assert mantissa in of_group(claim(0.5), n)


def test_large_groups_and_other_units_have_none() -> None:
    assert of_group(claim(8.0), 500) == "none for 500"
    assert of_group(claim(3.0, delta=1e-3), 4) == "none for 4"
    assert of_group(claim(math.inf), 2) == of_group(claim(1.0, unit="record"), 2) == ""
