"""What a notebook shows of results: the report's words, and pictures that run nothing."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from audit import api
from audit.core.errors import UsageError
from audit.results.schema import Results


def cells(table: api.Findings) -> list[list[str]]:
    root = ElementTree.fromstring(table._repr_html_())
    return [[cell.text or "" for cell in row] for row in root.iter("tr")]


def test_a_table_has_a_row_for_each_finding_beside_its_twins(results: Results) -> None:
    table = api.findings(results)
    head, *rows = cells(table)
    assert len(rows) == len(table) == 7 and {len(row) for row in rows} == {len(head)}
    first = dict(zip(head, rows[0], strict=True))
    assert (first["Release"], first["Attack"], first["n"]) == ("submix", "extraction", "100")
    assert first["Measured"].startswith("0\u00a0% [0") and first["Twins"].endswith("3\u00a0%]")
    assert first["In words"].startswith("A sentence about it. No test of the claim: ")
    undefended = dict(zip(head, next(row for row in rows if "none" in row[0]), strict=True))
    assert (undefended["Leaked"], undefended["Claim"]) == ("leak", "nothing claimed")
    plain = repr(table).splitlines()
    assert len(plain) == 8 and plain[0].split()[:3] == ["Release", "Attack", "Measure"]


def test_nothing_hostile_gets_into_a_page(hostile: Results) -> None:
    page = api.findings(hostile)._repr_html_()
    tags = {element.tag for element in ElementTree.fromstring(page).iter()}
    assert tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert "\u202e" not in page and "\u202e" not in repr(api.findings(hostile))
    for figure in api.figures(hostile):
        root = ElementTree.fromstring(figure._repr_html_())
        assert {e.tag for e in root.iter()} == {"figure", "strong", "br", "img", "figcaption"}
        assert "\u202e" not in figure.picture + figure._repr_html_()


def test_a_figure_is_an_image_with_words_and_runs_nothing(results: Results) -> None:
    drawn = api.figures(results)
    assert len(drawn) == len(list(drawn)) > 2 and repr(drawn[0]) == drawn[0].alternative
    assert drawn[:2]._repr_html_() == drawn[0]._repr_html_() + drawn[1]._repr_html_()
    for figure in drawn:
        svg = ElementTree.fromstring(figure.picture)
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert not any("var(" in value for e in svg.iter() for value in e.attrib.values())
        (image,) = ElementTree.fromstring(figure._repr_html_()).iter("img")
        assert image.get("alt") == figure.alternative
        assert (image.get("src") or "").startswith("data:image/svg+xml;base64,")


def test_a_frame_has_the_columns_of_findings_csv(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_csv(file: io.BytesIO, **how: Any) -> tuple[str, dict[str, Any]]:
        return file.read().decode("utf-8"), how

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(read_csv=read_csv))
    text, how = api.findings(results).frame()
    assert len(text.splitlines()) == 8 and text.startswith("plan_hash,corpus,defense,")
    assert how == {"keep_default_na": False, "na_values": [""]}  # the defense is called `none`
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        api.findings(results).frame()


def test_a_frame_of_pandas(results: Results) -> None:
    pytest.importorskip("pandas")
    frame = api.findings(results).frame()
    assert list(frame["defense"]) == [
        "submix",
        "submix",
        "none",
        "none",
        "as_is",
        "dp_sgd",
        "public",
    ]
    assert frame["value"].dtype == float and frame["value"].isna().sum() == 1
    assert frame["claimed_epsilon"].max() == float("inf")


def test_the_gate_is_the_gate_and_takes_no_partial_run(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = api.gate(results, strict=True)
    assert outcome.exit_code == 1 and outcome.strict  # dp_sgd is refuted
    assert {check.release for check in outcome.checks} >= {"submix", "dp_sgd"}
    policy = tmp_path / "other.toml"
    policy.write_text("[[limit]]\nattack = 'extraction'\nmetric = 'hit_rate'\nmax = 1.0\n")
    rules = {check.rule for check in api.gate(results, policy).checks}
    assert "limit" in rules
    with pytest.raises(UsageError, match=r"nowhere\.json: "):
        api.gate(results, baseline="nowhere.json")
    with pytest.raises(UsageError, match="partial, not complete"):
        api.gate(results.model_copy(update={"status": "partial"}))


def test_runs_are_compared_as_text(results: Results) -> None:
    one = results
    fewer = one.model_copy(update={"releases": one.releases[:2]})
    assert "Y against X: " in api.compare(one, fewer, ("X", "Y"))
    assert "In one run only:" in api.compare(one, fewer)
    assert api.compare(one, one).startswith("Nothing differs.")
