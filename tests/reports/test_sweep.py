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
from audit.results.schema import (
    Results,
)
from reports._content import sweep as sweeps
from reports._content.figure import Figure
from reports._figures import lines as drawings
from reports._figures import run as run_figures
from reports._figures.lines import Level, Plot, Point, Series, scale
from reports._figures.sweep_axes import epsilon_axes, kind, labels, parameter_axes
from tests import by_hand as make
from tests.reports.pages import assert_inert


def drawn(results: Results) -> list[Figure]:
    """The curves, which stand behind page one."""
    return [figure for figure in make.report(results).figures if not figure.first]


def test_page_one_shows_the_settings_in_the_same_rows_leaks_before_the_rest(
    sweep: Results,
) -> None:
    first = [figure for figure in make.report(sweep).figures if figure.first]
    rows = [[row[0] for row in figure.table.rows] for figure in first]
    assert len(first) == 3
    assert rows[0] == rows[1]
    assert rows[0][-2:] == ["undefended (none)", "public"]
    assert not any("unprotected" in name for name in rows[0])


def test_of_many_settings_page_one_shows_those_that_leak() -> None:
    settings = [
        make.release("submix", make.guarantee(2.0), make.finding(0.1), parameters={"k": k})
        for k in range(30)
    ]
    settings[29] = settings[29].changed(leaked="leak")
    figure = run_figures.of_settings(settings, [f"k={k}" for k in range(30)])[0]
    assert [row[0] for row in figure.table.rows] == [*(f"k={k}" for k in range(11)), "k=29"]
    assert figure.caption.endswith(" 12 of 30 settings, leaks first.")


def test_every_curve_of_the_brief_is_there_one_kind_of_guarantee_an_axis(sweep: Results) -> None:
    part = "ε per part (part removed), Rényi order 2, data-dependent"
    user = "ε per user (add or remove), δ = 1 × 10⁻⁵, worst case"
    expected = [
        f"{what} over {axis}"
        for what in (
            "Perplexity on held-out text",
            "BLEU-4 of completions",
            "Top-1 accuracy on held-out text",
            "extraction, hit rate",
        )
        for axis in (part, user)
    ]
    assert [figure.title for figure in drawn(sweep)] == [
        *expected,
        "extraction, hit rate over perplexity",
        f"Empirical ε over claimed {part}",
        f"Empirical ε over claimed {user}",
        f"Budget of submix over queries, {part.removeprefix('ε ')}",
    ]


def test_a_setting_has_the_answers_of_its_seeds_together(sweep: Results) -> None:
    """Not those of the seed whose claim is the weakest."""
    assert sweep.sweep is not None
    cells = [
        cell.model_copy(update={"leaked": "leak", "claim": "refuted"}) for cell in sweep.sweep.cells
    ]
    together = sweep.sweep.model_copy(update={"cells": cells})
    shown = sweeps.settings(sweep, together)
    assert {(one.leaked, one.claim) for one in shown} == {("leak", "refuted")}


def test_an_axis_of_epsilon_names_its_unit_and_holds_one_kind(sweep: Results) -> None:
    assert sweep.sweep is not None
    settings = sweeps.settings(sweep, sweep.sweep)
    axes = epsilon_axes(settings)
    for axis in axes:
        assert len({kind(release) for _, release in axis.members}) == 1
        assert "per part" in axis.name or "per user" in axis.name
    assert [{release.defense for _, release in a.members} for a in axes] == [{"submix"}, {"dp_sgd"}]


def test_a_figure_carries_its_numbers_beside_the_references(sweep: Results) -> None:
    perplexity = drawn(sweep)[0]
    rows = {(row[0], row[1]): row for row in perplexity.table.rows}
    mean = math.sqrt(20 * 21)  # of logarithms, over the seeds 20 and 21
    assert (
        rows["submix", "1"][2].startswith(f"{mean:.3g} [") and rows["submix", "1"][3] == "2 seeds"
    )
    assert {name for name, x in rows if x == "—"} == {"redaction", "none", "public"}
    assert "none: 2<" in perplexity.svg and "submix at 8" in perplexity.alternative


def test_only_a_claim_that_bounds_speak_about_has_a_forbidden_region(sweep: Results) -> None:
    part, user = drawn(sweep)[9:11]
    assert "refutes it" in user.svg and "refutes it" not in part.svg
    assert "no region is forbidden" in part.caption
    # lower median over the seeds' 0.3 and 1.3
    assert [row[2] for row in user.table.rows] == ["ε ≥ 0.3 nats per user (add or remove)"] * 2


def test_parameters_that_are_varied_have_an_axis_of_their_own() -> None:
    releases = [
        make.release("submix", make.guarantee(2.0), parameters={"k": k, "epsilon": e, "a": True})
        for k in (4, 8)
        for e in (1.0, 2.0)
    ]
    (axis,) = parameter_axes(releases)
    assert (axis.title, axis.parameter) == ("k of submix", "k")
    lines = {label: [x for x, _ in members] for label, members in axis.lines}
    assert lines == {"submix ε = 1": [4.0, 8.0], "submix ε = 2": [4.0, 8.0]}
    assert labels(releases, "epsilon") == ["submix k = 4", "submix k = 4"] + ["submix k = 8"] * 2


def test_drawings_are_well_formed_and_their_names_differ(sweep: Results) -> None:
    figures = drawn(sweep)
    for figure in figures:
        ElementTree.fromstring(figure.svg)
        assert "NaN" not in figure.svg and "nan" not in figure.svg
        assert figure.alternative and figure.table.rows
    ids = [i for figure in figures for i in set(re.findall(r' id="([^"]+)"', figure.svg))]
    assert len(ids) == len(set(ids))


def test_hostile_results_stay_inert_in_a_sweep(hostile: Results) -> None:
    sweep = make.on_two_seeds(hostile)
    assert_inert(make.text("html", sweep), links="$.")
    assert make.files("pdf", sweep)["report.pdf"].startswith(b"%PDF")


def test_a_sweep_survives_results_json_and_a_run_has_no_trace_of_it(
    sweep: Results, results: Results, tmp_path: Path
) -> None:
    path = tmp_path / "results.json"
    path.write_text(contract.to_json(sweep))
    read = Results.model_validate_json(path.read_text("utf-8"), context=FROM_FILE)
    assert contract.to_json(read) == contract.to_json(sweep)
    assert "sweep" not in contract.to_json(results)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.lists(st.floats(-1e9, 1e9)))
@example([0.0], [5e-324])
@example([0.0, -5e-324], [1.0, -1.0])
def test_an_axis_holds_every_value(values: list[float], bounds: list[float]) -> None:
    for unit in ("", "bits", "perplexity"):
        axis = scale(values, bounds, unit)
        slack = 1e-9 * max(1.0, *map(abs, values))
        assert axis.low - slack <= min(values) and max(values) <= axis.high + slack
        assert axis.low < axis.high


def test_spans_decide_on_a_logarithmic_axis_and_shares_never_have_one() -> None:
    assert not scale([1, 3, 8], []).logarithmic
    assert scale([0.1, 1, 10], []).logarithmic
    assert not scale([0.001, 0.9], [], "share of generations").logarithmic
    assert not scale([0.0, 100.0], []).logarithmic
    assert scale([0.0, 0.0], [0.0, 0.03], "share of generations").high >= 0.03


def test_an_interval_without_end_does_not_press_the_values_flat() -> None:
    axis = scale([10.0, 12.0], [0.0, 900.0], "perplexity")
    assert not axis.logarithmic
    assert 0.2 * (axis.high - axis.low) < 12.0 - 10.0


def test_many_lines_are_drawn_in_parts() -> None:
    lines = [Series(f"line {i}", [Point(1.0, float(i))]) for i in range(8)]
    parts = drawings.parts(Plot(lines, [Level("none", 1.0)], "x", "y"))
    assert [len(part.series) for part in parts] == [6, 2]
