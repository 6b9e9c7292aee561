"""Figures: as many as there is to draw, small, themeable, and honest about what is missing."""

from __future__ import annotations

import re

import pytest

from audit.results.schema import Results
from reports._content import page
from reports._content.figure import Figure
from reports._content.summary import badness
from reports._figures import leaks, rows, svg
from reports._figures.rows import Kind, Mark, Row
from tests import by_hand as make

ANY = Kind("any", "o", 0.5)


def drawn(results: Results) -> list[Figure]:
    return make.report(results).figures


def test_one_figure_a_measure_one_of_utility_one_a_ledger(results: Results) -> None:
    assert [(figure.title, figure.first) for figure in drawn(results)] == [
        ("What leaked, by membership: AUC", True),
        ("What it cost, in perplexity", True),
        ("What was promised, as ε", True),
        ("extraction: hit rate", False),
        ("Budget spent by submix", False),
    ]


def test_page_one_shows_the_worst_finding() -> None:
    quiet, loud = make.finding(0.0), make.finding(0.9, metric="recall", leaked="leak")
    loud = loud.model_copy(update={"attack": "last"})
    release = make.release("dp_sgd", make.guarantee(8.0), quiet, loud)
    titles = [figure.title for figure in drawn(make.run(release))]
    assert "What leaked, by last: recall" in titles and "extraction: hit rate" in titles


def test_rows_of_page_one_are_the_same_releases_in_the_same_order(results: Results) -> None:
    panels = [figure for figure in drawn(results) if figure.first]
    rows_of = [[row[0] for row in figure.table.rows] for figure in panels]
    assert rows_of[0] == rows_of[1] == rows_of[2]
    assert rows_of[0] == ["submix", "as_is", "dp_sgd", "undefended (none)", "public"]


def test_a_leak_stands_out_in_colour_and_in_shape() -> None:
    shapes = {}
    for word in ("leak", "no leak found", "inconclusive"):
        finding = make.finding(0.3, leaked=word)
        run = make.run(make.release("dp_sgd", make.guarantee(8.0), finding))
        (panel,) = leaks.figures(run.releases, ["dp_sgd"])
        assert f">{word}<" in panel.svg
        assert (svg.ALARM in panel.svg) == (word == "leak")
        shapes[word] = panel.svg.replace(svg.ALARM, svg.ACCENT).replace(word, "")
    assert len(set(shapes.values())) == 3


def test_many_findings_draw_what_page_one_quotes(four: Results) -> None:
    assert [figure.title for figure in drawn(four)] == [
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


def test_the_blind_baseline_is_drawn_beside_the_planted(four: Results) -> None:
    (auc,) = (figure for figure in drawn(four) if figure.title == "membership: record loss AUC")
    assert "blind" in auc.svg and "twins" not in auc.svg
    assert "blind 0.51 [0.44, 0.58]" in auc.alternative


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


def test_no_data_no_figure(unfinished: Results) -> None:
    assert drawn(unfinished) == []


def test_the_unmeasured_is_shown_as_such(results: Results) -> None:
    (auc,) = (f for f in drawn(results) if f.title == "What leaked, by membership: AUC")
    by_release = {row[0]: row for row in auc.table.rows}
    assert by_release["undefended (none)"][1] == by_release["public"][1] == "not measured"
    assert auc.svg.count("not measured") == 4
    assert "undefended (none) not measured" in auc.alternative


def test_long_runs_are_drawn_in_parts() -> None:
    many = make.run(
        *(
            make.release("dp_sgd", make.guarantee(8.0), make.finding(0.1), seed=seed)
            for seed in range(13)
        )
    )
    titles = [figure.title for figure in drawn(many)]
    assert titles[0] == "What leaked, by extraction: hit rate, part 1 of 2"
    later = [title for title in titles if title.startswith("extraction")]
    assert later == ["extraction: hit rate, part 2 of 2"]
    assert all("seed=12" not in figure.svg for figure in drawn(many) if figure.first)


@pytest.mark.parametrize("which", ["results", "hostile", "four", "hostile_four"])
def test_drawings_are_small_and_inert(which: str, request: pytest.FixtureRequest) -> None:
    for figure in drawn(request.getfixturevalue(which)):
        screen, paper = svg.on_screen(figure.svg), svg.on_paper(figure.svg)
        assert not re.search(r"\d\.\d{3,}", re.sub(r">[^<]*<", "><", screen))
        assert not re.search(r"style|metadata|DejaVu|http|<script|#0\d0\d0\d|clip", screen)
        assert "var(--ink)" in screen and "var(--" not in paper
        assert len(screen) < 40_000


def test_hostile_labels_are_text(hostile: Results) -> None:
    svg = drawn(hostile)[0].svg
    assert "=cmd|" in svg and "&lt;script" in svg and "<script" not in svg


def test_what_tells_releases_apart_is_not_clipped_away() -> None:
    run = make.run(
        *(make.release("dp_sgd", make.guarantee(8.0), make.finding(0.1), seed=seed,
                       parameters={"epsilon": 0.5 + seed}) for seed in range(2))
    )  # fmt: skip
    assert "dp_sgd epsilon=0.5 seed=0" in drawn(run)[0].svg


def test_unlike_settings_tell_releases_apart(results: Results) -> None:
    one = results.releases[0]
    other = one.model_copy(update={"parameters": {"k": 4, "beta": 0.001953125}, "seed": 1})
    assert page.labels([one, other]) == ["submix k=8 seed=0", "submix k=4 seed=1"]


def test_a_legend_shows_labels_that_matplotlib_would_drop() -> None:
    line = Row("a", "", False, [Mark(Kind("_hidden", "o", 0.5), 1.0)])
    drawn = rows.draw([line], rows.scale_of([line], "bits"), "bits", "x")
    assert ">_hidden<" in drawn


def test_texts_in_scripts_that_matplotlib_lacks_are_kept_without_a_warning() -> None:
    line = Row("中文 $x^2$", "", False, [Mark(ANY, 1.0)])
    assert ">中文 $x^2$<" in rows.draw([line], rows.scale_of([line], "bits"), "bits", "x")


def test_a_leak_by_another_attack_stands_in_the_row_of_its_release() -> None:
    """The picture shows one measure; what it does not show must not look like silence."""
    quiet = make.finding(0.0)
    loud = make.finding(0.9, attack="membership", metric="record_ratio_auc", leaked="leak")
    inside = loud.changed(stronger_than_release=True, leaked="leak to insiders")
    own = make.release("own", make.guarantee(1.0), quiet, loud)
    insider = make.release("insider", make.guarantee(1.0), quiet, inside)
    silent = make.release("silent", make.guarantee(1.0), quiet)
    shown = {
        figure.title: figure.svg for figure in leaks.figures([own, insider, silent], list("abc"))
    }
    svg = shown["extraction: hit rate"]
    assert svg.count("a leak by membership") == 1
    assert svg.count("a leak to insiders by membership") == 1


def test_a_leak_by_another_measure_of_a_reference_stands_in_its_row() -> None:
    """A service's own models may leak by a measure that the picture does not show."""
    quiet = make.finding(0.0)
    loud = make.finding(0.1, metric="probability", leaked="leak")
    bare = make.release("bare", make.guarantee(1.0), quiet, loud).model_copy(
        update={"reference": True, "role": "positive control of silent"}
    )
    silent = make.release("silent", make.guarantee(1.0), quiet)
    figure = next(leaks.figures([silent, bare], ["a", "b"]))
    assert figure.svg.count("a leak by extraction, probability") == 1


def test_a_leak_to_insiders_goes_before_silence_in_the_table() -> None:
    loud = make.finding(0.9, metric="recall", leaked="leak to insiders", stronger_than_release=True)
    assert badness(loud) < badness(make.finding(0.0))
    assert badness(loud.changed(leaked="leak")) < badness(loud)
