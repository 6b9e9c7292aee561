"""findings.csv: a row for each finding, numbers as numbers, no cell a spreadsheet would run."""

from __future__ import annotations

import csv
import io

import pytest

from audit.results.schema import ClaimTest, Results
from reports import csv as report
from tests import by_hand as make


def read(results: Results, name: str = report.FILENAME) -> list[dict[str, str]]:
    table = make.files("csv", results)[name].decode("utf-8")
    return list(csv.DictReader(io.StringIO(table, newline="")))


def test_the_tests_of_a_bound_and_of_a_claim_have_their_columns() -> None:
    bound = make.bound(1.4, m=500, guesses=[(332, 250), (82, 80)])
    curve = ClaimTest(
        mechanism="DP-SGD, σ = 1", m=500, r=332, v=250, p_value=0.01, least_p=1e-9, critical=240
    )
    found = make.finding(0.4, epsilon_lower=bound, claim_test=curve)
    run = make.run(make.release("dp_sgd", make.guarantee(1.0), found, make.finding(metric="b")))
    one, other = read(run)
    assert one["epsilon_lower_guesses"] == "250 of 332; 80 of 82"
    names = ("mechanism", "m", "r", "v", "p_value")
    shown = [one[f"claim_test_{name}"] for name in names]
    assert shown == ["DP-SGD, σ = 1", "500", "332", "250", "0.01"]
    assert {other[f"claim_test_{name}"] for name in names} == {""}


def test_controls_sides_and_the_evidence_of_a_bound(four: Results) -> None:
    rows = {(r["defense"], r["metric"]): r for r in read(four)}
    assert len(rows) == sum(len(release.findings) for release in four.releases)
    expected = {
        "record_loss_auc": {"blind_value": "0.51", "blind_ci_high": "0.58", "blind_n": "480",
                            "sides": "2", "epsilon_lower_m": "120", "twins_value": ""},
        "exposure_16_copies": {"epsilon_lower_guesses": "", "epsilon_lower_method": "rank",
                               "epsilon_lower_space": "1000000.0", "epsilon_lower_n": "20",
                               "epsilon_lower_m": ""},
        "hit_rate": {"power_detectable_rate": "0.048"},
    }  # fmt: skip
    for metric, cells in expected.items():
        row = rows["none", metric]
        assert {name: row[name] for name in cells} == cells


def test_row_has_what_its_answer_follows_from() -> None:
    found = make.finding(0.4, p_value=0.01, adjusted_p=0.3, guesses_p=0.2, leaked="inconclusive")
    (row,) = read(make.run(make.release("dp_sgd", make.guarantee(1.0), found)))
    names = ("p_value", "adjusted_p", "guesses_p", "withheld", "contact", "sight", "reach")
    assert [row[n] for n in names] == ["0.01", "0.3", "0.2", "0", "shown", "shown", "shown"]


def test_infinity_and_null_are_told_apart(results: Results) -> None:
    rows = read(results)
    claimed = {row["defense"]: row["claimed_epsilon"] for row in rows}
    assert claimed["none"] == "inf" and claimed["as_is"] == "" and claimed["public"] == "0.0"
    unmeasured = next(row for row in rows if row["leaked"] == "not measured")
    assert unmeasured["value"] == unmeasured["ci_low"] == unmeasured["twins_value"] == ""


@pytest.mark.parametrize("name", [report.FILENAME, "sweep.csv"])
def test_no_cell_opens_a_formula(hostile: Results, name: str) -> None:
    rows = read(make.on_two_seeds(hostile), name)
    assert len(rows) >= 14
    for row in rows:
        for column, cell in row.items():
            assert not cell.lstrip().startswith(("=", "+", "@", "\t", "\r")), column
        assert row["defense"].startswith("'=cmd") and "‹U+202E›" in row["defense"]


def test_formulas_are_quoted_and_numbers_are_not() -> None:
    for text in ("=1", "+1", "-1", "@x", " =1", "\u00a0=1", "＝1"):
        assert report._cell(text) == f"'{text}"
    assert report._cell(-0.0874628) == -0.0874628


def test_a_sweep_has_a_row_for_each_seed_and_for_all_together() -> None:
    rates = {0: 0.01, 1: 0.03}
    releases = [
        make.release("submix", make.guarantee(1.0), make.finding(x), seed=s, parameters={"k": 8})
        for s, x in rates.items()
    ]
    rows = read(make.swept(releases, make.run()), "sweep.csv")
    assert [(r["seed"], r["seeds"], r["metric"]) for r in rows] == [
        ("0", "1", "perplexity"), ("0", "1", "hit_rate"),
        ("1", "1", "perplexity"), ("1", "1", "hit_rate"),
        ("", "2", "perplexity"), ("", "2", "hit_rate"),
    ]  # fmt: skip
    assert (rows[-1]["k"], rows[-1]["n"], rows[-1]["claimed_unit"]) == ("4", "200", "user")
