"""Figures: as many as there is to draw, small, themeable, and honest about what is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from audit.results.schema import Results
from reports._content.figure import Figure
from reports._content.releases import labels
from reports._content.summary import badness
from reports._figures import leaks, rows, svg
from reports._figures.rows import Kind, Mark, Row
from tests import by_hand as make

ANY = Kind("any", "o", 0.5)


def drawn(results: Results) -> list[Figure]:
    return [*make.report(results).figures]


def of(*found: Any, **changes: Any) -> Any:
    return make.release("dp_sgd", make.guarantee(8.0), *found, **changes)


def leaked(*releases: Any) -> list[Figure]:
    """What leaked, by release a, b, …"""
    return list(leaks.figures(make.named(releases, "abc")))


def test_run_has_a_figure_a_measure_one_a_ledger(results: Results) -> None:
    figures = drawn(results)
    assert [(figure.title, figure.first) for figure in figures] == [
        ("What leaked, by membership: AUC", True),
        ("What it cost, in perplexity", True),
        ("What was promised, as ε", True),
        ("extraction: hit rate", False),
        ("Budget spent by submix", False),
    ]
    for panel in figures[:3]:  # the same releases in the same order
        shown = [row[0] for row in panel.table.rows]
        assert shown == ["submix", "as_is", "dp_sgd", "undefended (none)", "public"]
    auc = figures[0]
    assert [row[1] for row in auc.table.rows[3:]] == ["not measured"] * 2
    assert auc.svg.count("not measured") == 4
    assert "undefended (none) not measured" in auc.alternative


@pytest.mark.slow
def test_many_findings_draw_what_page_one_quotes(four: Results) -> None:
    figures = {figure.title: figure for figure in drawn(four)}
    assert list(figures) == [
        "What leaked, by extraction: hit rate",
        "What it cost, in perplexity",
        "What was promised, as ε",
        "name leak: other names",
        "exposure: 1 copy",
        "membership: record loss AUC",
        "exposure of each secret, in bits",
        "membership, record: ROC on logarithmic axes",
        "membership, span: ROC on logarithmic axes",
        "Budget spent by submix",
    ]
    auc = figures["membership: record loss AUC"]
    assert "blind" in auc.svg and "twins" not in auc.svg
    assert "blind 0.51 [0.44, 0.58]" in auc.alternative


def test_page_one_draws_the_worst_finding() -> None:
    loud = make.finding(0.9, metric="recall", attack="last", leaked="leak")
    titles = [figure.title for figure in drawn(make.run(of(make.finding(0.0), loud)))]
    assert "What leaked, by last: recall" in titles and "extraction: hit rate" in titles


def test_leak_stands_out_in_colour_and_shape() -> None:
    shapes = set()
    for word in ("leak", "no leak found", "inconclusive"):
        (panel,) = leaked(of(make.finding(0.3, leaked=word)))
        assert f">{word}<" in panel.svg
        assert (svg.ALARM in panel.svg) == (word == "leak")
        shapes.add(panel.svg.replace(svg.ALARM, svg.ACCENT).replace(word, ""))
    assert len(shapes) == 3


@pytest.mark.parametrize(
    ("unit", "values", "logarithmic", "high"),
    [
        ("AUC", (0.01, 0.9), False, 1.0),
        ("bits", (0.01, 18.0), False, 20.0),
        ("share of generations", (0.0, 0.9), False, 1.0),
        ("perplexity", (3.0, 900.0), True, 1000.0),
    ],
)
def test_axes_fit_their_units(
    unit: str, values: tuple[float, float], logarithmic: bool, high: float
) -> None:
    scale = rows.scale_of([Row("", "", False, [Mark(ANY, v)]) for v in values], unit)
    assert (scale.logarithmic, scale.high) == (logarithmic, high)


def test_run_without_data_has_no_figure(unfinished: Results) -> None:
    assert drawn(unfinished) == []


def test_long_runs_are_drawn_in_parts() -> None:
    figures = drawn(make.run(*(of(make.finding(0.1), seed=seed) for seed in range(13))))
    titles = [figure.title for figure in figures]
    assert titles[0] == "What leaked, by extraction: hit rate, part 1 of 2"
    later = [title for title in titles if title.startswith("extraction")]
    assert later == ["extraction: hit rate, part 2 of 2"]
    assert all("seed=12" not in figure.svg for figure in figures if figure.first)


@pytest.mark.parametrize("which", ["results", "hostile", "four", "hostile_four"])
def test_drawings_are_small_and_inert(which: str) -> None:
    for figure in drawn(make.EVERY[which]()):
        screen, paper = svg.on_screen(figure.svg), figure.picture
        assert not re.search(r"\d\.\d{3,}", re.sub(r">[^<]*<", "><", screen))
        assert not re.search(r"style|metadata|DejaVu|http|<script|#0\d0\d0\d|clip", screen)
        assert "var(--ink)" in screen and "var(--" not in paper
        assert len(screen) < 40_000


def test_labels_are_whole_text(hostile: Results) -> None:
    first = drawn(hostile)[0].svg
    assert "=cmd|" in first and "&lt;script" in first and "<script" not in first
    several = [of(make.finding(0.1), seed=s, parameters={"epsilon": 0.5 + s}) for s in range(2)]
    assert "dp_sgd epsilon=0.5 seed=0" in drawn(make.run(*several))[0].svg
    for name in ("_hidden", "中文 $x^2$"):  # matplotlib drops the one, and has no font for another
        line = Row(name, "", False, [Mark(Kind(name, "o", 0.5), 1.0)])
        assert rows.draw([line], rows.scale_of([line], "bits"), "bits", "x").count(name) == 2


def test_settings_that_differ_name_releases(results: Results) -> None:
    one = results.releases[0]
    other = one.changed(parameters={"k": 4, "beta": 0.001953125}, seed=1)
    assert labels([one, other]) == ["submix k=8 seed=0", "submix k=4 seed=1"]


def test_row_names_a_leak_that_is_not_drawn() -> None:
    """The picture shows one measure; what it does not show must not look like silence."""
    quiet = make.finding(0.0)
    loud = make.finding(0.9, attack="membership", metric="record_ratio_auc", leaked="leak")
    inside = loud.changed(stronger_than_release=True, leaked="leak to insiders")
    (figure,) = (
        figure
        for figure in leaked(of(quiet, loud), of(quiet, inside), of(quiet))
        if figure.title == "extraction: hit rate"
    )
    assert figure.svg.count("a leak by membership") == 1
    assert figure.svg.count("a leak to insiders by membership") == 1
    bare = of(quiet, make.finding(0.1, metric="probability", leaked="leak"), reference=True)
    assert leaked(of(quiet), bare)[0].svg.count("a leak by extraction, probability") == 1


def test_leak_to_insiders_is_worse_than_silence() -> None:
    loud = make.finding(0.9, metric="recall", leaked="leak to insiders", stronger_than_release=True)
    assert badness(loud) < badness(make.finding(0.0))
    assert badness(loud.changed(leaked="leak")) < badness(loud)
