"""Rates of which trials are withheld: their interval holds that of every way they came out."""

from __future__ import annotations

import pytest
from scipy.stats import beta

from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import IntervalKind
from audit.statistics.withheld_rate import withheld_rate


def test_limits_are_those_of_fewest_and_most() -> None:
    seen = withheld_rate(1, 20, 5)
    assert seen.value == 1 / 20
    assert seen.low == pytest.approx(beta.ppf(0.025, 1, 20))
    assert seen.high == pytest.approx(beta.ppf(0.975, 7, 14))
    assert seen.kind is IntervalKind.WITHHELD_RATE and "withheld" in seen.method
    for hits in range(1, 7):
        inner = clopper_pearson(hits, 20)
        assert seen.low <= inner.low and inner.high <= seen.high
    assert withheld_rate(0, 9, 9).ci == (0.0, 1.0)


def test_nothing_withheld_is_clopper_pearson() -> None:
    assert withheld_rate(2, 9, 0) == clopper_pearson(2, 9)


@pytest.mark.parametrize(("k", "withheld"), [(3, 7), (0, -1), (10, 0)])
def test_impossible_counts_are_refused(k: int, withheld: int) -> None:
    with pytest.raises(ValueError):
        withheld_rate(k, 9, withheld)
