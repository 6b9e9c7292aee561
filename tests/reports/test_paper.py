"""`audit figure`: the drawing, the table and the caption of a sweep, from results.json alone."""

from __future__ import annotations

import csv
import io
import math
from xml.etree import ElementTree

import pytest

from audit.core.errors import UsageError
from audit.results.schema import ReleaseResult, Results
from reports._figures import paper as module
from reports._figures.paper import KINDS_DIFFER, Paper, files, paper
from tests import by_hand as make
from tests.refusals import refusals


def texts(svg: bytes) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]


def made(one: Paper, form: str) -> bytes:
    (content,) = files(one, [form]).values()
    return content


def test_panels_share_axes_and_the_legend_names_kinds_and_references(sweep: Results) -> None:
    one = paper(sweep, "epsilon", "perplexity", "defense")
    assert one.panels == ["submix", "dp_sgd", "redaction"]
    said = texts(made(one, "svg"))
    assert [t for t in said if "seeds)" in t] == [f"{p} (n = 2 seeds)" for p in one.panels]
    assert said.count("20") == 1  # the vertical axis is written once for the row
    for name in (
        "ε per part (part removed), Rényi order 2, data-dependent",
        "ε per user (add or remove), δ = 1 × 10⁻⁵, worst case",
        "no ε promised",
        "none (2)",
        "public (40)",
    ):
        assert said.count(name) == 1
    assert KINDS_DIFFER in one.caption
    assert any(line.startswith("Two seeds") for line in one.caption)


def test_the_table_holds_what_is_drawn_with_its_intervals(sweep: Results) -> None:
    one = paper(sweep, "epsilon", "extraction.hit_rate", "defense")
    rows = list(csv.DictReader(io.StringIO(made(one, "csv").decode())))
    (asked,) = [r for r in rows if (r["panel"], r["epsilon"]) == ("submix", "8.0")]
    assert (float(asked["y"]), asked["seeds"], asked["epsilon_claimed"]) == (0.08, "2", "8.0")
    assert float(asked["y_low"]) < 0.08 < float(asked["y_high"])
    assert [r["x"] for r in rows if r["panel"] == "redaction"] == [""]
    tex = made(one, "latex").decode()
    assert r"\toprule" in tex and r"dp\_sgd & 8 & 8 & per user" in tex and r"8~\%" in tex
    assert tex.count(r" \\") == 1 + len(rows)
    assert {line.count(" & ") for line in tex.splitlines() if line.endswith(r"\\")} == {5}


def test_a_measure_over_a_measure_joins_nothing(sweep: Results) -> None:
    one = paper(sweep, "perplexity", "hit_rate", "defense")
    assert not one.joined and paper(sweep, "epsilon", "bleu4", "defense").joined
    assert all(row.x is not None and row.x.across for row in one.rows if row.panel == "submix")


def test_by_a_parameter_curves_keep_apart_what_else_differs(sweep: Results) -> None:
    one = paper(sweep, "perplexity", "hit_rate", "epsilon")
    assert one.panels == ["ε = 1", "ε = 8", "ε = none"]
    assert {row.setting for row in one.rows} == {"submix", "dp_sgd", "redaction", "none", "public"}


def test_what_is_not_there_is_refused(sweep: Results) -> None:
    refusals(
        lambda words: paper(sweep, *words.split()),
        [
            ("epsilon perplexty defense", "did you mean 'perplexity'"),
            ("epsilom perplexity defense", "--x epsilom: is no measure"),
            ("epsilon perplexity kk", "--by kk: is no parameter"),
        ],
    )


def test_unknown_none_and_zero_promises_are_three_kinds() -> None:
    def one(name: str, epsilon: float | None) -> ReleaseResult:
        use = {"perplexity": make.perplexity(9.0)}
        return make.release(name, make.guarantee(epsilon), make.finding(0.1), utility=use)

    run = make.run(one("as_is", None), one("none", math.inf), one("uniform", 0.0), one("x", 2.0))
    rows = {row.panel: row for row in paper(run, "epsilon", "perplexity", "defense").rows}
    assert [rows[name].kind for name in ("as_is", "none")] == ["ε unknown", "no ε promised"]
    assert rows["uniform"].kind == rows["x"].kind and rows["uniform"].kind.startswith("ε per")
    assert {name for name, row in rows.items() if row.x is None} == {"as_is", "none"}


def test_more_curves_than_styles_are_refused(
    sweep: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STYLES", 2)
    with pytest.raises(UsageError, match="makes 3 curves, and a figure has room for 2"):
        paper(sweep, "epsilon", "perplexity", "defense")


@pytest.mark.slow
def test_hostile_results_stay_text(hostile: Results) -> None:
    named = next(r.utility for r in hostile.releases if r.utility)
    one = paper(hostile, "epsilon", next(iter(named)), "defense")
    ElementTree.fromstring(made(one, "svg"))
    assert made(one, "pdf").startswith(b"%PDF") and made(one, "png").startswith(b"\x89PNG")
