"""The report of two runs: both under their names, what changed beside it, inert, reproducible."""

from __future__ import annotations

from typing import Any

import pytest

from audit.results.schema import Results
from reports import TwoRuns, html, pdf
from tests import by_hand as make
from tests.reports.pages import assert_inert


def of(k: int, *others: Any) -> Results:
    """A run in which SubMix gave away k of 100 planted values."""
    return make.run(make.release("submix", make.guarantee(2.0), make.finding(k / 100)), *others)


def public(k: int) -> Any:
    found = make.finding(k / 100)
    return make.release("public", make.guarantee(0.0), found, reference=True, role="null control")


def paired(k: int, seed: int) -> Results:
    """A run that lists the outcome of each of its 60 secrets."""
    found = make.finding(k / 60, k=k, n=60, outcomes="1" * k + "0" * (60 - k))
    return make.run(make.release("submix", make.guarantee(2.0), found), plan={"seed": seed})


def test_headline_names_settings_that_differ(four: Results) -> None:
    other = four.changed(plan={**four.plan, "seed": 9, "policy": "names"})
    assert "Settings that differ: seed, policy." in TwoRuns(four, other).page.headline
    assert TwoRuns(of(2), of(2)).page.headline == ["Nothing differs."]


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        (of(2), of(3), 0),
        (of(2), of(40), 1),
        (of(40), of(2), 1),
        (of(2, public(2)), of(2, public(60)), 0),  # no reference is counted
        (paired(30, 0), paired(38, 0), 1),  # p = 1/128 if the secrets are the same
        (paired(30, 0), paired(38, 1), 0),  # Fisher's 0.2 where they are not
    ],
)
def test_headline_counts_audited_measures_told_apart(
    one: Results, other: Results, count: int
) -> None:
    headline = " ".join(TwoRuns(one, other).page.headline)
    assert f" {count} of 2 measures of audited releases told apart" in headline


def test_releases_of_both_runs_carry_their_run(
    results: Results, four: Results, undrawn: None
) -> None:
    two = TwoRuns(results, four)
    heads = [head for attack in two.page.attacks for m in attack.matrices for head in m.heads]
    assert {head.name[:4] for head in heads} == {"A · ", "B · "}
    assert {head.name: head.anchor for head in heads}["B · none"] == "release-8"  # after five of A
    assert len(two.page.costs.rows) == len(results.releases) + len(four.releases)
    assert {block.name[:4] for block in two.page.summary.blocks} == {"A · ", "B · "}
    assert two.figures


def test_sweeps_have_the_badges_of_their_settings(undrawn: None) -> None:
    """Each seed by itself finds no leak."""
    page = TwoRuns(make.silent_seeds(8), make.silent_seeds(6)).page
    assert [one.badge for one in page.badges] == ["LEAK", "INCONCLUSIVE"]
    assert [one.about for one in page.badges] == ["A", "B"]


@pytest.mark.parametrize(
    ("one", "shown"), [(of(1, public(3)), "3\u00a0%"), (of(1), "—")], ids=["its own", "none"]
)
def test_public_model_controls_its_own_run(one: Results, shown: str) -> None:
    page = TwoRuns(one, of(1, public(7))).page
    column = page.summary.controls.index("Public")
    rows = [row for block in page.summary.blocks for row in block.rows if row.leaked]
    assert [row.controls[column].text for row in rows] == [shown, "7\u00a0%"]


def test_files_are_inert_and_reproducible(hostile: Results) -> None:
    pages = [html.Html().compared(TwoRuns(hostile, hostile)) for _ in range(2)]
    assert pages[0] == pages[1]
    assert_inert(pages[0]["comparison.html"].decode("utf-8"), links="$.")
    prints = [pdf.Pdf().compared(TwoRuns(of(2, public(3)), of(40))) for _ in range(2)]
    assert prints[0] == prints[1] and prints[0]["comparison.pdf"].startswith(b"%PDF")
