"""The report of a sweep: curves by kind of guarantee, tables beside them, nothing ranked."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import example, given
from hypothesis import strategies as st

from audit.results import schema as contract
from audit.results.numbers import FROM_FILE
from audit.results.schema import Results
from reports._content.figure import Figure
from reports._content.releases import setting_labels, settings
from reports._figures import lines as drawings
from reports._figures import run as run_figures
from reports._figures.lines import Plot, Point, Series, scale
from reports._figures.sweep_axes import epsilon_axes, kind, parameter_axes
from tests import by_hand as make
from tests.reports.pages import assert_inert

PART = "ε per part (part removed), Rényi order 2, data-dependent"
USER = "ε per user (add or remove), δ = 1 × 10⁻⁵, worst case"


def drawn(results: Results, first: bool = False) -> list[Figure]:
    """The curves, which stand behind page one, or its first figures."""
    return [figure for figure in make.report(results).figures if figure.first == first]


def test_page_one_has_the_same_settings_in_each_figure(sweep: Results) -> None:
    rows = [[row[0] for row in figure.table.rows] for figure in drawn(sweep, first=True)]
    assert len(rows) == 3 and rows[0] == rows[1]
    assert rows[0][-2:] == ["undefended (none)", "public"]
    assert not any("unprotected" in name for name in rows[0])


def test_of_many_settings_page_one_keeps_the_leaks() -> None:
    settings = [
        make.release("submix", make.guarantee(2.0), make.finding(0.1), parameters={"k": k})
        for k in range(30)
    ]
    settings[29] = settings[29].changed(leaked="leak")
    figure = run_figures.of_settings(make.named(settings, [f"k={k}" for k in range(30)]))[0]
    assert [row[0] for row in figure.table.rows] == [*(f"k={k}" for k in range(11)), "k=29"]
    assert figure.caption.endswith(" 12 of 30 settings, leaks first.")


def test_each_kind_of_guarantee_has_its_curves(sweep: Results) -> None:
    measures = (
        "Perplexity on held-out text",
        "BLEU-4 of completions",
        "Top-1 accuracy on held-out text",
        "extraction, hit rate",
    )
    assert [figure.title for figure in drawn(sweep)] == [
        *(f"{what} over {axis}" for what in measures for axis in (PART, USER)),
        "extraction, hit rate over perplexity",
        f"Empirical ε over claimed {PART}",
        f"Empirical ε over claimed {USER}",
        f"Budget of submix over queries, {PART.removeprefix('ε ')}",
    ]


def test_setting_has_the_answers_of_its_seeds_together(sweep: Results) -> None:
    """Not those of the seed whose claim is the weakest."""
    assert sweep.sweep is not None
    cells = [cell.changed(leaked="leak", claim="refuted") for cell in sweep.sweep.cells]
    together = sweep.model_copy(update={"sweep": sweep.sweep.model_copy(update={"cells": cells})})
    assert {(one.leaked, one.claim) for one in settings(together)} == {("leak", "refuted")}
    promises = [make.release("dp_sgd", make.guarantee(e), seed=s) for s, e in enumerate((1.0, 2.0))]
    (weakest,) = settings(make.swept(promises, make.run()))
    assert weakest.guarantee.epsilon == 2.0


def test_axis_of_epsilon_names_its_unit_and_holds_one_kind(sweep: Results) -> None:
    axes = list(epsilon_axes(settings(sweep)))
    for axis in axes:
        assert len({kind(release) for _, release in axis.members}) == 1
        assert "per part" in axis.name or "per user" in axis.name
    assert [{release.defense for _, release in a.members} for a in axes] == [{"submix"}, {"dp_sgd"}]


def test_figure_carries_its_numbers_beside_references(sweep: Results) -> None:
    perplexity = drawn(sweep)[0]
    rows = {(row[0], row[1]): row for row in perplexity.table.rows}
    mean = math.sqrt(20 * 21)  # of logarithms, over the seeds 20 and 21
    assert rows["submix", "1"][2].startswith(f"{mean:.3g} [")
    assert rows["submix", "1"][3] == "2 seeds"
    assert {name for name, x in rows if x == "—"} == {"redaction", "none", "public"}
    assert "none: 2<" in perplexity.svg and "submix at 8" in perplexity.alternative


def test_only_a_comparable_claim_has_a_forbidden_region(sweep: Results) -> None:
    part, user = drawn(sweep)[9:11]
    assert "refutes it" in user.svg and "refutes it" not in part.svg
    assert "no region is forbidden" in part.caption
    # lower median over the seeds' 0.3 and 1.3
    assert [row[2] for row in user.table.rows] == ["ε ≥ 0.3 nats per user (add or remove)"] * 2


def test_varied_parameter_has_its_axis() -> None:
    releases = [
        make.release("submix", make.guarantee(2.0), parameters={"k": k, "epsilon": e, "a": True})
        for k in (4, 8)
        for e in (1.0, 2.0)
    ]
    (axis,) = parameter_axes(releases)
    assert (axis.title, axis.parameter) == ("k of submix", "k")
    lines = {label: [x for x, _ in members] for label, members in axis.lines}
    assert lines == {"submix ε = 1": [4.0, 8.0], "submix ε = 2": [4.0, 8.0]}
    assert setting_labels(releases, "epsilon") == [f"submix k = {k}" for k in (4, 4, 8, 8)]


def test_drawings_are_well_formed_under_different_names(sweep: Results) -> None:
    figures = drawn(sweep)
    for figure in figures:
        ElementTree.fromstring(figure.svg)
        assert "nan" not in figure.svg.lower()
        assert figure.alternative and figure.table.rows
    ids = [i for figure in figures for i in set(re.findall(r' id="([^"]+)"', figure.svg))]
    assert len(ids) == len(set(ids))


def test_hostile_sweep_stays_inert(hostile: Results) -> None:
    sweep = make.on_two_seeds(hostile)
    assert_inert(make.text("html", sweep), links="$.")
    assert make.files("pdf", sweep)["report.pdf"].startswith(b"%PDF")


def test_sweep_survives_results_json(sweep: Results, results: Results, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(contract.to_json(sweep))
    read = Results.model_validate_json(path.read_text("utf-8"), context=FROM_FILE)
    assert contract.to_json(read) == contract.to_json(sweep)
    assert "sweep" not in contract.to_json(results)  # of a run


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.lists(st.floats(-1e9, 1e9)))
@example([0.0], [5e-324])
@example([0.0, -5e-324], [1.0, -1.0])
def test_axis_holds_every_value(values: list[float], bounds: list[float]) -> None:
    for unit in ("", "bits", "perplexity"):
        axis = scale(values, bounds, unit)
        slack = 1e-9 * max(1.0, *map(abs, values))
        assert axis.low - slack <= min(values) and max(values) <= axis.high + slack
        assert axis.low < axis.high


def test_axis_is_logarithmic_by_span_but_of_shares() -> None:
    assert not scale([1, 3, 8], []).logarithmic
    assert scale([0.1, 1, 10], []).logarithmic
    assert not scale([0.001, 0.9], [], "share of generations").logarithmic
    assert not scale([0.0, 100.0], []).logarithmic
    assert scale([0.0, 0.0], [0.0, 0.03], "share of generations").high >= 0.03
    wide = scale([10.0, 12.0], [0.0, 900.0], "perplexity")  # no interval presses values flat
    assert not wide.logarithmic and 0.2 * (wide.high - wide.low) < 12.0 - 10.0


def test_many_lines_are_drawn_in_parts() -> None:
    lines = [Series(f"line {i}", [Point(1.0, float(i))]) for i in range(8)]
    parts = drawings.parts(Plot(lines, {"none": 1.0}, "x", "y"))
    assert [len(part.series) for part in parts] == [6, 2]
