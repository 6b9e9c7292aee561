"""Two runs side by side."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from scipy.stats import fisher_exact

from audit.gate.comparison import Section, compare, text
from audit.results.schema import Results


def sections(one: Results, other: Results) -> dict[str, Section]:
    return {section.title: section for section in compare(one, other)}


def test_plan_claims_utility_and_findings_are_laid_side_by_side(make: SimpleNamespace) -> None:
    used = [{"perplexity": make.measure(v, 0.9 * v, 1.1 * v)} for v in (10, 20)]
    one = make.run(make.release("submix", make.rate(2), utility=used[0]))
    other = make.run(
        make.release("submix", make.rate(12), utility=used[1], guarantee=make.claim(math.inf)),
        plan={**one.plan, "planting": {"users": 60}},
    )
    found = sections(one, other)
    assert found["plan"].rows == (("planting.users", "120", "60"),)
    assert found["claims"].rows[0][0] == "submix"
    assert "ε = 2 per user" in found["claims"].rows[0][1] and "ε = ∞" in found["claims"].rows[0][2]
    (utility,) = found["utility"].rows
    assert utility[2:4] == ("10 [9, 11]", "20 [18, 22]") and float(utility[4]) < 1e-6
    (finding,) = found["findings"].rows
    p = fisher_exact([[12, 88], [2, 98]], alternative="greater").pvalue
    assert float(finding[4]) == pytest.approx(2 * p, rel=0.05)
    assert finding[5] == "no leak found; claim not testable"
    assert text(compare(one, other)).count("\n\n") == 3


def test_a_run_beside_itself_differs_in_nothing(make: SimpleNamespace) -> None:
    one = make.run(make.release("submix", make.rate(2)))
    found = sections(one, one)
    assert found["plan"].rows == ()
    assert found["findings"].rows[0][4] == "1"


def test_releases_are_matched_by_parameters_then_by_defense(make: SimpleNamespace) -> None:
    four, eight = (make.release("submix", make.rate(k), parameters={"k": k}) for k in (4, 8))
    lone = make.release("dp_sgd", make.rate(1))
    rows = sections(make.run(four, eight), make.run(eight, lone))["claims"].rows
    assert [row[0] for row in rows] == ["submix:k=4", "submix:k=8", "dp_sgd"]
    assert [row[2] == "no such release" for row in rows] == [True, False, False]
    assert [row[1] == "no such release" for row in rows] == [False, False, True]
    (row,) = sections(make.run(four), make.run(eight))["findings"].rows
    assert "4 of 100" in row[2] and "8 of 100" in row[3]


def test_holm_adjusts_over_all_findings(make: SimpleNamespace) -> None:
    names = ("hit_rate", "recall")
    one, other = (make.run(make.release("x", *(make.rate(k, metric=n) for n in names)))
                  for k in (2, 12))  # fmt: skip
    (alone,) = sections(make.run(make.release("x", make.rate(2))),
                        make.run(make.release("x", make.rate(12))))["findings"].rows  # fmt: skip
    both = sections(one, other)["findings"].rows
    assert float(both[0][4]) == pytest.approx(2 * float(alone[4]), rel=0.05)


def test_what_only_one_run_measured_is_shown(make: SimpleNamespace) -> None:
    one = make.run(make.release("x", make.rate(2)))
    other = make.run(make.release("x", make.rate(None), make.rate(None, metric="recall")))
    (row,) = sections(one, other)["findings"].rows
    assert (row[3], row[4], row[5]) == (
        "not measured",
        "",
        "no leak found; claim not testable → not measured; claim not testable",
    )
