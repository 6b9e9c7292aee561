"""Pictures of claims show what was measured, beside what was published."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from audit.core.errors import UsageError
from experiments import claim as claims
from experiments import page
from experiments.measures import LARGEST
from experiments.picture import drawn, rows_of

M1 = claims.read("M1")


def document(**measured: Any) -> dict[str, Any]:
    names = {f"{name} perplexity": values for name, values in measured.items()}
    statements = [{"measured": {name: values}} for name, values in names.items()]
    return {"scale": "small", "statements": [*statements, {"measured": {"submix gain": (0.5,)}}]}


MEASURED = document(none=(2.0, 3.0), submix=(9.0, 11.0), public=(16.0, 16.0))


def test_rows_are_the_paper_s_with_ours_beside_them() -> None:
    panels = rows_of(M1, MEASURED)
    assert list(panels) == ["perplexity", "gain"]
    assert [(row.label, row.ours, row.published) for row in panels["perplexity"]] == [
        ("fine-tuned", (2.0, 3.0), 20.0),
        ("SubMix", (9.0, 11.0), 26.9),
        ("public", (16.0, 16.0), 37.5),
    ]
    assert [(row.label, row.published) for row in panels["gain"]] == [("submix", None)]


def test_the_words_of_a_picture_are_text_and_its_bytes_the_same_again() -> None:
    once = drawn(M1, MEASURED)
    assert once == drawn(M1, MEASURED)
    text = once.decode()
    for words in ("fine-tuned", "published", "here, at small", "gain"):
        assert words in text


def test_a_table_of_what_is_not_measured_is_refused() -> None:
    strange = replace(M1, table={"x": {"ours": "uniform perplexity", "published": 1.0}})
    with pytest.raises(UsageError, match="M1: 'uniform perplexity' was not measured"):
        drawn(strange, MEASURED)


def test_what_is_shown_and_not_judged_has_a_row_of_its_own_label() -> None:
    wider = replace(M1, table={**M1.table, "rival": {"ours": "gnmax perplexity"}})
    rows = rows_of(wider, {**MEASURED, "shown": {"gnmax perplexity": (20.0, 21.0)}})["perplexity"]
    assert [(row.label, row.ours, row.published) for row in rows][3:] == [
        ("rival", (20.0, 21.0), None)
    ]


def test_tables_and_pictures_are_those_of_claims() -> None:
    """A published figure stands in the claim's text, and what is ours among what it measures."""
    keys = ("less", "than", "same", "as", "at_least", "at_most")
    for name in claims.ids():
        claim = claims.read(name)
        measured = {one[key] for one in claim.statements for key in keys if key in one}
        for label, row in claim.table.items():
            assert {"ours"} <= set(row) <= {"ours", "published", "not_at"}
            assert set(row.get("not_at", ())) <= set(claims.SCALES)
            if "not_at" in row:
                assert row["ours"] not in measured, (name, label)  # or it could not be judged
                assert label not in claim.table_at(row["not_at"][0])
            if "published" in row:
                assert row["ours"] in measured, (name, label)
                assert math.isfinite(row["published"])
                figures = {f"{x * row['published']:g}".lstrip("0") for x in (1, 100)}  # per cent
                assert any(figure in claim.published for figure in figures), (name, label)
        for scale in page.stored(name):
            assert (page.PICTURES / f"{name}-{scale}.svg").is_file(), name


def test_a_perplexity_beyond_all_use_is_a_number_at_the_edge() -> None:
    """Else the axis is of it alone, and its ticks are none."""
    text = drawn(M1, document(none=(2, 3), submix=(1e28, 2e28), public=(16, 16))).decode()
    assert "1e+28" in text and "10" in re.findall(r">([\d.]+)</text>", text)


def test_a_perplexity_that_no_float_holds_is_not_given_as_a_number() -> None:
    text = drawn(M1, document(none=(2, 3), submix=(LARGEST, LARGEST), public=(16, 16))).decode()
    assert ">over 1e+308<" in text
    assert page.figures({"measured": {"a perplexity": (LARGEST,)}, "low": None, "high": None,
                         "difference": 1.0}) == "a perplexity: over 1e+308; +1"  # fmt: skip


def test_of_seeds_near_and_far_both_are_drawn() -> None:
    """The label is of the least that is far; the seed that is near has its point."""
    both = drawn(M1, document(none=(2, 3), submix=(9, 1e28, 2e29), public=(16, 16))).decode()
    far = drawn(M1, document(none=(2, 3), submix=(1e28, 2e29), public=(16, 16))).decode()
    assert ">1e+28<" in both and ">9<" not in both
    assert both.count("<use ") == far.count("<use ") + 1


@pytest.mark.parametrize("least", [1e300, LARGEST])
def test_perplexities_that_are_all_beyond_any_axis_are_drawn(least: float) -> None:
    some = {"none": (least, least), "submix": (LARGEST, LARGEST), "public": (1e308, LARGEST)}
    assert ">over 1e+308<" in drawn(M1, document(**some)).decode()


def test_what_had_no_trial_says_so() -> None:
    nothing = drawn(M1, document(none=(2, 3), submix=(None, None), public=(16, 16))).decode()
    assert ">no trial<" in nothing
    assert (
        ">no trial<" not in drawn(M1, document(none=(2,), submix=(None, 9), public=(16,))).decode()
    )
    only = {**document(none=(None,), submix=(None,), public=(None,))}
    assert drawn(M1, only).decode().count(">no trial<") == 3


def test_a_published_nothing_is_a_figure_and_a_row_may_stand_twice() -> None:
    table = {"zero": {"ours": "none perplexity", "published": 0},
             "again": {"ours": "none perplexity"}}  # fmt: skip
    rows = rows_of(replace(M1, table=table), MEASURED)["perplexity"]
    assert [row.label for row in rows] == ["zero", "again", "submix", "public"]
    assert ">published<" in drawn(replace(M1, table=table), MEASURED).decode()


@pytest.mark.parametrize(("measure", "below"), [("extraction/hit_rate", False), ("gain", True)])
def test_the_interval_of_a_share_ends_where_shares_end(measure: str, below: bool) -> None:
    measured = {f"submix {measure}": (0.0, 0.0, 0.143), f"none {measure}": (1.0, 0.9, 1.0)}
    some = {"scale": "small", "statements": [], "shown": measured}
    text = drawn(replace(M1, table={}), some).decode()
    assert (">−0.2<" in text) == below
