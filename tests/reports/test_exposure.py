"""Exposure histograms: every secret is counted, and what is missing is said to be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.results.schema import Exposures, FindingResult, Results
from reports._content.figure import Figure
from reports._figures import exposure
from tests import by_hand as make


def tier(copies: int, space: float = 1e6) -> FindingResult:
    seen = Exposures(planted=[0.2, 0.9, 3.0, 19.93], twins=[0.5, 1.5], null=1.4427)
    metric = f"exposure_{copies}_copies"
    found = make.finding(
        1.95, attack="exposure", metric=metric, unit="bits", exposures=seen, space=space, ci=None
    )
    assert isinstance(found, FindingResult)
    return found


def drawn(*releases: Any, names: str = "abcdefg") -> list[Figure]:
    return list(exposure.figures(make.named(releases, names)))


def of(*found: Any) -> Any:
    return make.release("d", make.guarantee(1.0), *found)


def test_shares_count_every_secret_once() -> None:
    assert exposure._shares([0.0, 0.2, 0.999, 1.0, 3.5]) == [0.6, 0.2, 0.0, 0.2]
    assert exposure._shares([-0.08]) == [1.0]
    assert exposure._shares([]) == [0.0]
    assert exposure._shares([math.inf])[64] == 1.0


def test_spaces_of_any_size_are_drawn() -> None:
    for space in (0.0, 1.0, math.inf):
        assert len(drawn(of(tier(1, space)))) == 1


def test_figure_has_a_row_a_release_a_column_a_tier(four: Results) -> None:
    (figure,) = (f for f in make.report(four).figures if f.title.startswith("exposure of each"))
    assert len(figure.table.rows) == 12 and figure.svg.count("median") == 12
    assert figure.table.rows[0][1:] == [
        "1 copy", "0.702 [0.289, 2.36]", "0.679 [0.362, 1.9]", "20 planted, 20 twins", "1.44",
        "19.9",
    ]  # fmt: skip
    for told in ("planted", "twins", "never seen", "ceiling", "1 copy", "16 copies", "submix"):
        assert f">{told}" in figure.svg, told
    assert "submix, 1 copy: planted 0.702" in figure.alternative


def test_missing_tier_is_not_measured() -> None:
    (figure,) = drawn(of(tier(1), tier(4)), of(tier(1)), of(make.finding(0.0)))
    assert figure.svg.count("not measured") == 1 and ">c<" not in figure.svg


@pytest.mark.parametrize(("releases", "tiers", "figures"), [(7, 3, 2), (3, 9, 3), (7, 5, 4)])
def test_many_are_drawn_in_parts(releases: int, tiers: int, figures: int, undrawn: None) -> None:
    found = [tier(copies + 1, space=50) for copies in range(tiers)]
    several = drawn(*[of(*found)] * releases)
    parts = [f"part {i + 1} of {figures}" for i in range(figures)]
    assert [figure.title.partition(", in bits, ")[2] for figure in several] == parts
    assert sum(len(figure.table.rows) for figure in several) == releases * tiers
