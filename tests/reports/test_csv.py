"""findings.csv: a row for each finding, numbers as numbers, no cell a spreadsheet would run."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from audit.results.schema import ClaimTest, EpsilonLower, Results
from reports import csv as report


def read(results: Results, folder: Path) -> list[dict[str, str]]:
    with report.write(results, folder).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_one_row_a_finding_with_its_claim(results: Results, tmp_path: Path) -> None:
    rows = read(results, tmp_path)
    assert len(rows) == sum(len(release.findings) for release in results.releases) == 7
    first, refuted = rows[0], next(row for row in rows if row["claim"] == "refuted")
    assert (first["defense"], first["claimed_epsilon"], first["claimed_alpha"]) == (
        "submix", "2.0", "2.0",
    )  # fmt: skip
    assert (first["value"], first["ci_high"], first["twins_n"]) == ("0.0", "0.0362", "98")
    assert (refuted["claimed_epsilon"], refuted["claimed_delta"]) == ("8.0", "1e-05")
    assert (first["leaked"], first["claim"]) == ("no leak found", "not testable")
    assert refuted["leaked"] == "leak" and refuted["claim_sentence"]


def test_the_tests_of_a_bound_and_of_a_claim_have_their_columns(
    make: SimpleNamespace, tmp_path: Path
) -> None:
    bound = EpsilonLower(
        value=1.4, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=1e-5, m=500, guesses=[(332, 250), (82, 80)],
    )  # fmt: skip
    curve = ClaimTest(
        mechanism="DP-SGD, σ = 1", m=500, r=332, v=250, p_value=0.01, least_p=1e-9, critical=240
    )
    found = make.finding(0.4, epsilon_lower=bound, claim_test=curve)
    run = make.run(make.release("dp_sgd", make.guarantee(1.0), found, make.finding(metric="b")))
    one, other = read(run, tmp_path)
    assert one["epsilon_lower_guesses"] == "250 of 332; 80 of 82"
    names = ("mechanism", "m", "r", "v", "p_value")
    shown = [one[f"claim_test_{name}"] for name in names]
    assert shown == ["DP-SGD, σ = 1", "500", "332", "250", "0.01"]
    assert {other[f"claim_test_{name}"] for name in names} == {""}


def test_controls_sides_and_the_evidence_of_a_bound(four: Results, tmp_path: Path) -> None:
    rows = {(r["defense"], r["metric"]): r for r in read(four, tmp_path)}
    area, exposure = rows["none", "record_loss_auc"], rows["none", "exposure_16_copies"]
    assert (area["blind_value"], area["blind_ci_high"], area["blind_n"]) == ("0.51", "0.58", "480")
    assert (area["sides"], area["epsilon_lower_m"], area["twins_value"]) == ("2", "120", "")
    assert re.fullmatch(r"\d+ of 80", area["epsilon_lower_guesses"])
    assert exposure["epsilon_lower_guesses"] == ""
    assert (exposure["epsilon_lower_method"], exposure["epsilon_lower_space"]) == (
        "rank",
        "1000000.0",
    )
    assert (exposure["epsilon_lower_n"], exposure["epsilon_lower_m"]) == ("20", "")
    assert rows["none", "hit_rate"]["power_detectable_rate"] == "0.048"


def test_infinity_and_null_are_told_apart(results: Results, tmp_path: Path) -> None:
    claimed = {row["defense"]: row["claimed_epsilon"] for row in read(results, tmp_path)}
    assert claimed["none"] == "inf" and claimed["as_is"] == "" and claimed["public"] == "0.0"
    unmeasured = next(r for r in read(results, tmp_path) if r["leaked"] == "not measured")
    assert unmeasured["value"] == unmeasured["ci_low"] == unmeasured["twins_value"] == ""


def test_no_cell_opens_a_formula(hostile: Results, tmp_path: Path) -> None:
    rows = read(hostile, tmp_path)
    assert len(rows) == 7
    for row in rows:
        for column, cell in row.items():
            assert not cell.lstrip().startswith(("=", "+", "@", "\t", "\r")), column
        assert row["sentence"].startswith("'=cmd") and "‹U+202E›" in row["sentence"]


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", " =1", "\u00a0=1", "＝1"])
def test_formula_openers_are_quoted(text: str) -> None:
    assert report._cell(text) == f"'{text}"


def test_numbers_keep_their_sign() -> None:
    assert report._cell(-0.0874628) == -0.0874628
