"""What results show of themselves: bounded, escaped, without a name that meets another's."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from audit import api
from audit.results.schema import Results, to_json
from reports import _notebook
from reports._content import glance
from tests import by_hand as make

TAGS = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption"}
DRAWN = {"svg", "g", "path", "text"}
MOST_TEXT, MOST_HTML = 4_000, 60_000  # characters


def leak() -> Any:
    return make.finding(0.5, leaked="leak", p_value=1e-9)


def swept(settings: int, leaking: int = 0) -> Results:
    releases = [
        make.release(
            "dp_sgd", make.guarantee(1.0 + i),
            leak() if i >= settings - leaking else make.finding(0.5),
            parameters={"epsilon": 1.0 + i}, seed=seed,
        )
        for seed in (0, 1)
        for i in range(settings)
    ]  # fmt: skip
    return make.swept(releases, make.run(headline=["A sentence of a setting. " * settings]))


def table(page: str) -> list[list[str]]:
    root = ElementTree.fromstring(page)
    return [[cell.text or "" for cell in row] for row in root.iter("tr")]


def test_a_run_shows_its_headline_a_row_a_release_and_a_picture(results: Results) -> None:
    page = api.Shown.of(results)._repr_html_()
    head, *rows = table(page)
    assert head[:4] == ["Release", "Claimed ε, nats", "Leaked", "Claim"]
    assert [row[0] for row in rows] == [release.defense for release in results.releases]
    assert rows[1] == [
        "none", "none promised", "leak", "nothing claimed", "≥ 2.61 per user (add or remove)",
        "12.4 [9.92, 14.9]",
    ]  # fmt: skip
    assert rows[0][1] == "2 per part (part removed)" and rows[3][3] == "refuted"
    assert " ".join(results.headline) in page and page.count("<svg") == 1 and 'role="img"' in page


def test_text_is_a_headline_and_a_short_line_a_release(results: Results) -> None:
    lines = repr(api.Shown.of(results)).splitlines()
    assert lines[0].startswith("CLAIM REFUTED: ") and len(lines) == 3 + len(results.releases)
    assert lines[1] == " ".join(results.headline)
    assert all(len(line) < 300 for line in lines)
    assert str(api.Shown.of(results)).splitlines() == lines


@pytest.mark.parametrize("settings", [10, 11, 50])
def test_its_length_is_bounded_whatever_the_size(settings: int) -> None:
    shown = api.Shown.of(swept(settings))
    text, page = repr(shown), shown._repr_html_()
    assert len(text) < MOST_TEXT and len(page) < MOST_HTML
    rest = f"… and {settings - 10} more"
    assert (rest in text) == (rest in page) == (settings > 10)
    assert len(table(page)) == 1 + min(10, settings)


def test_releases_of_endless_names_are_bounded(hostile: Results) -> None:
    long = hostile.releases[0].model_copy(
        update={"defense": "x" * 9_999, "parameters": {"y" * 9_999: ["z" * 9_999] * 9}}
    )
    many = [long.model_copy(update={"seed": seed}) for seed in range(13)]
    shown = api.Shown.of(hostile.model_copy(update={"releases": many, "headline": ["h" * 99_999]}))
    assert len(repr(shown)) < MOST_TEXT and len(shown._repr_html_()) < MOST_HTML


def test_the_worst_is_never_left_out() -> None:
    seen = glance.glance(swept(50, leaking=3))
    assert [line.leaked for line in seen.lines].count("leak") == 3
    assert seen.lines[-1].name == "dp_sgd epsilon=50"
    assert glance.glance(swept(50, leaking=12)).rest == (
        "… and 40 more, 2 of them with a leak or a refuted claim"
    )


def test_a_notebook_may_hold_it_many_times(results: Results, four: Results) -> None:
    """No element has a name, and none is looked up by name: nothing can collide."""
    cells = [api.Shown.of(run)._repr_html_() for run in (results, four, results)]
    root = ElementTree.fromstring(f"<body>{''.join(cells)}</body>")
    named = [key for element in root.iter() for key in element.attrib if key in ("id", "class")]
    values = [value for element in root.iter() for value in element.attrib.values()]
    pointing = [v for v in values if "url(" in v or re.fullmatch("#(?![0-9a-f]{6}$).*", v)]
    assert named == pointing == []
    assert cells[0] == cells[2]


def test_a_drawing_without_names_still_has_every_mark() -> None:
    source = (
        '<svg xmlns="http://www.w3.org/2000/svg"><defs><path id="m" d="M0 0"/></defs>'
        '<g><use x="1" y="2" href="#m" fill="#fff"/></g><use x="3" y="4" href="#m"/></svg>'
    )
    root = _notebook.without_names(source)
    moved = [e.get("transform") for e in root.iter() if e.tag.endswith("}g") and e.get("transform")]
    assert sorted(filter(None, moved)) == ["translate(1 2)", "translate(3 4)"]
    assert [e.get("d") for e in root.iter() if e.tag.endswith("}path")] == ["M0 0", "M0 0"]
    assert not [e for e in root.iter() if e.tag.endswith(("}use", "}defs")) or e.get("id")]


def test_nothing_hostile_gets_into_a_page(hostile: Results) -> None:
    shown = api.Shown.of(hostile)
    page = shown._repr_html_()
    root = ElementTree.fromstring(page)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= TAGS | DRAWN
    names = {key for element in root.iter() for key in element.attrib}
    assert not {name for name in names if name.startswith("on") or "href" in name}
    for text in (page, repr(shown)):
        assert "\u202e" not in text and "\x1b" not in text and "\x00" not in text
        text.encode("utf-8")


def test_shown_results_are_the_results(results: Results) -> None:
    shown = api.Shown.of(results)
    assert shown == results and results == shown
    other = results.model_copy(update={"headline": ["other"]})
    assert shown != other and other != shown and shown != 3
    assert to_json(shown) == to_json(results) and shown.model_dump() == results.model_dump()
    assert isinstance(shown, api.Results) and Results.model_validate(shown) == shown
    for twin in (pickle.loads(pickle.dumps(shown)), copy.deepcopy(shown), shown.model_copy()):
        assert type(twin) is api.Shown and twin == results


def test_a_run_that_is_not_complete_says_so(unfinished: Results) -> None:
    shown = api.Shown.of(unfinished)
    assert repr(shown).startswith("INCONCLUSIVE: ") and "\nThe run is not complete. " in repr(shown)
    assert "The run is not complete. " in shown._repr_html_() and "<svg" not in shown._repr_html_()


def test_only_what_the_report_shows_is_shown() -> None:
    """Sentences, prefixes and outcomes stay where they are: only words and numbers are shown."""
    found: Any = make.finding(0.5, sentence="SECRET-48213", test="SECRET", untested="SECRET")
    shown = api.Shown.of(make.run(make.release("submix", make.guarantee(2.0), found)))
    assert "SECRET" not in repr(shown) + shown._repr_html_()
