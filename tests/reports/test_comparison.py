"""The report of two runs: both under their names, what changed beside it, inert, reproducible."""

from __future__ import annotations

import re
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.plugins import registry
from audit.results.schema import Results
from reports import Format, TwoRuns
from tests import by_hand as make
from tests.reports.pages import assert_inert


def written(runs: TwoRuns, name: str) -> bytes:
    made = registry.build("reports", name, Format, {})[1]  # type: ignore[type-abstract]
    return made.compared(runs)[f"comparison.{name}"]


def rate(k: int, n: int = 100, **changes: Any) -> Any:
    told = {"k": k, "n": n, "ci": (max(0.0, k / n - 0.05), k / n + 0.05)}
    return make.finding(k / n, **told, **changes)


def of(k: int, *others: Any, **changes: Any) -> Results:
    """A run in which SubMix gave away k planted values."""
    return make.run(make.release("submix", make.guarantee(2.0), rate(k)), *others, **changes)


def public(k: int) -> Any:
    return make.release("public", make.guarantee(0.0), rate(k), reference=True, role="null control")


def headline(one: Results, other: Results) -> str:
    return " ".join(TwoRuns(one, other).page.headline)


def apart(one: Results, other: Results) -> int:
    """How many of two measures the headline says were told apart."""
    counted = re.search(r" (\d) of 2 measures of audited releases told apart", headline(one, other))
    assert counted is not None
    return int(counted[1])


@pytest.mark.parametrize(("before", "after", "count"), [(2, 3, 0), (2, 40, 1), (40, 2, 1)])
def test_the_headline_counts_what_surely_changed(before: int, after: int, count: int) -> None:
    assert apart(of(before), of(after)) == count
    assert "Settings that differ" not in headline(of(before), of(after))


def test_the_headline_of_a_run_beside_itself_names_no_difference() -> None:
    assert headline(of(2), of(2)) == "Nothing differs."


def test_the_headline_names_settings_that_differ(four: Results) -> None:
    other = four.model_copy(update={"plan": {**four.plan, "seed": 9, "policy": "names"}})
    assert "Settings that differ: seed, policy." in headline(four, other)
    plans = [{"defenses": [{"name": "dp_sgd", "parameters": {"epsilon": e}}]} for e in (8.0, 1.0)]
    runs = [of(2, plan=plan) for plan in plans]
    assert "Settings that differ: defenses.dp_sgd.epsilon." in headline(*runs)


def test_the_headline_counts_what_only_one_run_measured() -> None:
    lost = make.finding(None, leaked="not measured")
    other = make.run(make.release("submix", make.guarantee(2.0), lost))
    assert "1 in one run only" in headline(of(50), other)


def test_the_headline_counts_no_reference() -> None:
    assert apart(of(2, public(2)), of(2, public(60))) == 0


def test_outcomes_of_other_secrets_are_never_paired() -> None:
    """30 and 38 of 60: p = 1/128 if the secrets were the same, Fisher's 0.2 where they are not."""
    runs = [
        make.run(make.release("submix", make.guarantee(2.0), rate(
            k, 60, outcomes="1" * k + "0" * (60 - k))), plan={"seed": seed})
        for k, seed in ((30, 0), (38, 1))
    ]  # fmt: skip
    same = runs[1].model_copy(update={"plan": runs[0].plan})
    assert (apart(*runs), apart(runs[0], same)) == (0, 1)


def test_every_release_of_both_stands_under_the_name_of_its_run(
    results: Results, four: Results, undrawn: None
) -> None:
    two = TwoRuns(results, four)
    heads = {head.name for attack in two.page.attacks for m in attack.matrices for head in m.heads}
    assert {name[0] for name in heads} == {"A", "B"}
    assert len(two.page.costs.rows) == len(results.releases) + len(four.releases)
    assert {block.name[:4] for block in two.page.summary.blocks} == {"A · ", "B · "}
    assert two.figures


@pytest.mark.parametrize(
    ("one", "shown"), [(of(1, public(3)), "3\u00a0%"), (of(1), "—")], ids=["its own", "none"]
)
def test_each_run_keeps_its_own_controls(one: Results, shown: str) -> None:
    """The public model of one run is no control of the other."""
    page = TwoRuns(one, of(1, public(7))).page
    column = page.summary.controls.index("Public")
    rows = [row for block in page.summary.blocks for row in block.rows if row.leaked]
    assert [row.controls[column].text for row in rows] == [shown, "7\u00a0%"]


def test_the_files_are_inert_and_the_same_again(hostile: Results) -> None:
    runs = TwoRuns(hostile, hostile)
    assert written(runs, "pdf").startswith(b"%PDF")
    assert_inert(written(runs, "html").decode("utf-8"), links="$.")
    for name in ("html", "pdf"):
        first, again = (written(TwoRuns(of(2, public(3)), of(40)), name) for _ in range(2))
        assert first == again


@pytest.mark.parametrize("name", sorted({*registry.names("reports")} - {"html", "pdf"}))
def test_other_formats_refuse_a_comparison(name: str) -> None:
    with pytest.raises(UsageError, match="html or pdf"):
        written(TwoRuns(of(2), of(3)), name)


def test_an_ordinary_report_has_no_section_of_changes(results: Results) -> None:
    assert "What changed" not in make.text("html", results)
