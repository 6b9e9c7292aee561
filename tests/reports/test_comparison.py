"""The report of two runs: both under their names, what changed beside it, inert, reproducible."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.results.schema import Results
from reports import html, pdf
from reports._content import comparison


def rate(make: SimpleNamespace, k: int, **changes: Any) -> Any:
    told = {"k": k, "n": 100, "ci": (max(0.0, k / 100 - 0.05), k / 100 + 0.05)}
    return make.finding(k / 100, **told, **changes)


def two(make: SimpleNamespace, before: int, after: int) -> tuple[Results, Results]:
    runs = [
        make.run(make.release("submix", make.guarantee(2.0), rate(make, k)))
        for k in (before, after)
    ]
    return runs[0], runs[1]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (2, 2, "Nothing differs."),
        (2, 3, " 0 of 2 measures of audited releases told apart"),
        (2, 40, " 1 of 2 measures of audited releases told apart"),
        (40, 2, " 1 of 2 measures of audited releases told apart"),
    ],
)
def test_the_headline_counts_what_surely_changed(
    make: SimpleNamespace, before: int, after: int, told: str
) -> None:
    page, _ = comparison.content(*two(make, before, after))
    assert told in " ".join(page.headline)
    assert "Settings that differ" not in " ".join(page.headline)


def test_plans_that_differ_are_named_in_the_headline(four: Results) -> None:
    other = four.model_copy(update={"plan": {**four.plan, "seed": 9, "policy": "names"}})
    page, _ = comparison.content(four, other)
    assert re.search(r"Settings that differ: seed, policy\.", " ".join(page.headline))


def test_every_release_of_both_stands_under_the_name_of_its_run(
    results: Results, four: Results
) -> None:
    page, figures = comparison.content(results, four)
    heads = {head.name for attack in page.attacks for m in attack.matrices for head in m.heads}
    assert {name[0] for name in heads} == {"A", "B"}
    assert len(page.costs.rows) == len(results.releases) + len(four.releases)
    assert {block.name[:4] for block in page.summary.blocks} == {"A · ", "B · "}
    assert figures


def test_each_run_keeps_its_own_controls(make: SimpleNamespace) -> None:
    """The public model of A is no control of B."""
    runs = [
        make.run(
            make.release("submix", make.guarantee(2.0), rate(make, 1)),
            make.release(
                "public", make.guarantee(0.0), rate(make, k), reference=True, role="null control"
            ),
        )
        for k in (3, 7)
    ]
    page, _ = comparison.content(*runs)
    column = page.summary.controls.index("Public")
    shown = [row.controls[column].text for block in page.summary.blocks for row in block.rows]
    assert shown == ["3\N{NO-BREAK SPACE}%", "7\N{NO-BREAK SPACE}%"]


def test_a_control_that_only_one_has_is_left_open_in_the_other(make: SimpleNamespace) -> None:
    alone = make.run(make.release("submix", make.guarantee(2.0), rate(make, 1)))
    beside = make.run(
        make.release("submix", make.guarantee(2.0), rate(make, 1)),
        make.release(
            "public", make.guarantee(0.0), rate(make, 2), reference=True, role="null control"
        ),
    )
    page, _ = comparison.content(alone, beside)
    column = page.summary.controls.index("Public")
    rows = [row for block in page.summary.blocks for row in block.rows]
    assert [row.controls[column].text for row in rows] == ["—", "2\N{NO-BREAK SPACE}%"]


def test_the_files_hold_the_tables_and_are_the_same_again(
    results: Results, four: Results, tmp_path: Path
) -> None:
    page, pdf_path = (f.write_comparison(results, four, tmp_path) for f in (html, pdf))
    text = page.read_text(encoding="utf-8")
    assert "What changed from A to B" in text
    assert "How to reproduce" in text and 'id="releases"' not in text
    anchors, ids = (
        set(re.findall(r'href="#([^"]+)"', text)),
        set(re.findall(r' id="([^"]+)"', text)),
    )
    assert anchors <= ids
    first = pdf_path.read_bytes()
    assert first.startswith(b"%PDF")
    assert html.write_comparison(results, four, tmp_path).read_text(encoding="utf-8") == text
    assert pdf.write_comparison(results, four, tmp_path).read_bytes() == first


def test_hostile_text_is_inert(hostile: Results, hostile_four: Results, tmp_path: Path) -> None:
    text = html.write_comparison(hostile, hostile_four, tmp_path).read_text(encoding="utf-8")
    assert "<script" not in text.lower() and "\x1b" not in text and "\u202e" not in text
    assert pdf.write_comparison(hostile, hostile_four, tmp_path).read_bytes().startswith(b"%PDF")


def test_an_ordinary_report_says_nothing_of_changes(results: Results) -> None:
    assert "What changed" not in html.render(results)


def test_what_is_no_longer_measured_and_other_parameters_are_told(make: SimpleNamespace) -> None:
    runs = [
        make.run(
            make.release("dp_sgd", make.guarantee(e), *found, parameters={"epsilon": e}),
            plan={"defenses": [{"name": "dp_sgd", "parameters": {"epsilon": e}}]},
        )
        for e, found in (
            (8.0, [rate(make, 50)]),
            (1.0, [make.finding(None, leaked="not measured")]),
        )
    ]
    page, _ = comparison.content(*runs)
    assert "1 in one run only" in " ".join(page.headline)
    assert "Settings that differ: defenses.dp_sgd.epsilon." in " ".join(page.headline)


def test_references_are_not_counted(make: SimpleNamespace) -> None:
    runs = [
        make.run(
            make.release("submix", make.guarantee(2.0), rate(make, 2)),
            make.release("none", make.guarantee(2.0), rate(make, k), reference=True),
        )
        for k in (2, 60)
    ]
    page, _ = comparison.content(*runs)
    assert " 0 of 2 measures" in " ".join(page.headline)


def test_other_secrets_are_never_paired(make: SimpleNamespace) -> None:
    """30 and 38 of 60: p = 1/128 if the secrets were the same, Fisher's 0.2 where they are not."""
    runs = [
        make.run(
            make.release(
                "submix",
                make.guarantee(2.0),
                make.finding(k / 60, k=k, n=60, outcomes="1" * k + "0" * (60 - k)),
            ),
            plan={"seed": seed},
        )
        for k, seed in ((30, 0), (38, 1))
    ]
    page, _ = comparison.content(*runs)
    assert " 0 of 2 measures" in " ".join(page.headline)
    same = runs[1].model_copy(update={"plan": runs[0].plan})
    assert " 1 of 2 measures" in comparison.content(runs[0], same)[0].headline[0]
