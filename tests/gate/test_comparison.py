"""What differs between two runs, and nothing beyond what intervals support."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from audit.gate.comparison import Comparison, Part, Row, compare, text
from audit.gate.setting_changes import LONGEST, changes
from audit.results.schema import Results
from tests.gate import make


def rows(found: Comparison, part: Part) -> list[Row]:
    return [row for section in found.sections if section.title == part for row in section.rows]


def compared(before: int, after: int) -> Comparison:
    one, other = (make.run(make.release("submix", make.rate(k))) for k in (before, after))
    return compare(one, other)


def test_what_differs_is_laid_side_by_side() -> None:
    used = [{"perplexity": make.measure(v, 0.9 * v, 1.1 * v)} for v in (10, 20)]
    one = make.run(make.release("submix", make.rate(2), utility=used[0]))
    other = make.run(
        make.release("submix", make.rate(12), utility=used[1], guarantee=make.claim(math.inf)),
        plan={**one.plan, "planting": {"users": 60}},
    )
    found = compare(one, other)
    assert rows(found, Part.SETTINGS) == [("planting.users", "120", "60")]
    ((name, before, after),) = rows(found, Part.CLAIMS)
    assert name == "submix" and "ε = 2 per user" in before and "ε = ∞ per user" in after
    ((_, _, *values, p, direction),) = rows(found, Part.APART)
    assert values == ["10 [9, 11]", "20 [18, 22]"] and p == "< 1e-15" and direction == "higher"
    ((_, measure, before, after, p),) = rows(found, Part.NOT_APART)
    assert measure == "extraction.hit_rate (share of generations)"
    assert before.startswith("2 % [") and after.endswith("], 12 of 100")
    exact = fisher_exact([[12, 88], [2, 98]], alternative="greater").pvalue
    assert float(p) == pytest.approx(2 * exact, rel=0.05)
    written = text(found)
    assert written.startswith("B against A: 1 setting differs, 1 claim differs, ")
    assert written.index(Part.SETTINGS) < written.index(Part.APART) < written.index(Part.NOT_APART)


def test_a_run_beside_itself_differs_in_nothing() -> None:
    one = make.run(make.release("submix", make.rate(2)))
    found = compare(one, one)
    assert found.sections == ()
    assert text(found).splitlines() == ["Nothing differs.", "", found.same]
    assert found.same.endswith("1 claim, 2 answers, 1 measure.")


def test_overlapping_intervals_are_never_told_apart() -> None:
    for k in (0, 5, 12, 20, 50, 100):
        found = compared(5, k)
        low, high = sorted([make.rate(5), make.rate(k)], key=lambda finding: finding.value)
        overlap = low.ci[1] >= high.ci[0]
        assert not (overlap and rows(found, Part.APART))
        assert bool(rows(found, Part.APART)) == (k >= 20)
        told = text(found).replace("Whether higher is better depends on the measure.", "")
        assert "improved" not in told and "better" not in told


def test_paired_outcomes_say_no_more_than_the_intervals() -> None:
    """30 and 38 of 60 of the same secrets: p = 1/128, and intervals that overlap."""
    one, other = (
        make.run(make.release("x", make.rate(k, 60, outcomes="1" * k + "0" * (60 - k))))
        for k in (30, 38)
    )
    (row,) = rows(compare(one, other), Part.NOT_APART)
    assert float(row[4]) == pytest.approx(1 / 128, rel=0.05)


def test_what_cannot_be_tested_is_not_told_apart() -> None:
    for changed in ({"ci": None, "k": None}, {"unit": "bits"}, {"metric": "largest_rate"}):
        own = {"metric": "largest_rate"} if "metric" in changed else {}
        one = make.run(make.release("x", make.rate(1, **own)))
        other = make.run(make.release("x", make.rate(90).model_copy(update=changed)))
        found = compare(one, other)
        (row,) = rows(found, Part.NOT_APART)
        assert row[4] == "not tested" and "(1 cannot be tested)" in found.headline


def test_a_changed_answer_is_shown_for_the_release_and_the_measure() -> None:
    one = make.run(make.release("x", make.rate(2)))
    other = make.run(make.release("x", make.rate(2, leaked="leak", claim="refuted")))
    answers = ("no leak found; claim not testable", "leak; claim refuted")
    found = compare(one, other)
    assert rows(found, Part.ANSWERS) == [
        ("x", "all measures", *answers),
        ("x", "extraction.hit_rate", *answers),
    ]
    assert "2 answers changed" in found.headline


def test_releases_are_matched_by_parameters_then_by_defense() -> None:
    four, eight = (make.release("submix", make.rate(k), parameters={"k": k}) for k in (4, 8))
    lone = make.release("dp_sgd", make.rate(1))
    alone = rows(compare(make.run(four, eight), make.run(eight, lone)), Part.ONE_ONLY)
    assert alone == [
        ("submix:k=4", "all measures", "released", "no such release"),
        ("dp_sgd", "all measures", "no such release", "released"),
    ]
    (row,) = rows(compare(make.run(four), make.run(eight)), Part.NOT_APART)
    assert "4 of 100" in row[2] and "8 of 100" in row[3]


def test_holm_adjusts_over_all_measures() -> None:
    names = ("hit_rate", "recall")
    one, other = (make.run(make.release("x", *(make.rate(k, metric=n) for n in names)))
                  for k in (2, 12))  # fmt: skip
    (alone,) = rows(compared(2, 12), Part.NOT_APART)
    both = rows(compare(one, other), Part.NOT_APART)
    assert float(both[0][4]) == pytest.approx(2 * float(alone[4]), rel=0.05)


def test_what_only_one_run_measured_is_shown() -> None:
    one = make.run(make.release("x", make.rate(2)))
    other = make.run(make.release("x", make.rate(None), make.rate(None, metric="recall")))
    found = compare(one, other)
    ((_, measure, before, after),) = rows(found, Part.ONE_ONLY)
    assert measure.startswith("extraction.hit_rate") and before.endswith("2 of 100")
    assert after == "not measured"
    assert rows(found, Part.ANSWERS)[-1][3] == "not measured; claim not testable"


def test_version_corpus_and_seed_are_settings() -> None:
    one = make.run(make.release("x", make.rate(1)), environment={"audit": "1", "date": "today"})
    other = one.model_copy(
        update={
            "environment": {"audit": "2", "date": "tomorrow", "seconds": 9},
            "corpus": one.corpus.model_copy(update={"sha256": "cd34"}),
            "plan": {**one.plan, "seed": 7, "hash": "other"},
        }
    )
    assert {row[0] for row in rows(compare(one, other), Part.SETTINGS)} == {
        "environment.audit",
        "corpus.sha256",
        "seed",
    }


def test_parameters_have_names_of_their_own() -> None:
    def planned(*ks: int) -> Results:
        defenses = [{"name": "submix", "parameters": {"k": k, "epsilon": 2.0}} for k in ks]
        made = make.run(make.release("submix", make.rate(1)))
        return made.model_copy(update={"plan": {**made.plan, "defenses": defenses}})  # type: ignore[no-any-return]

    changed, _ = changes(planned(4, 4), planned(4, 8))
    assert changed == [("defenses.submix#2.k", "4", "8")]
    changed, _ = changes(planned(4), planned(4, 8))
    assert ("defenses.submix#2.k", "not set", "8") in changed


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@given(one=VALUES, other=VALUES)
def test_two_settings_that_differ_never_look_the_same(one: object, other: object) -> None:
    runs = [make.run(make.release("x", make.rate(1)), plan={"own": v}) for v in (one, other)]
    changed, _ = changes(*runs)
    plans = [json.dumps(run.plan, sort_keys=True) for run in runs]
    assert bool(changed) == (plans[0] != plans[1])
    for _, before, after in changed:
        assert before != after and max(len(before), len(after)) <= LONGEST
