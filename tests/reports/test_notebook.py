"""What notebooks show of results: the report's words, bounded and escaped, and inert pictures."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import sys
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from audit import api
from audit.core.errors import UsageError
from audit.results.schema import Results, to_json
from reports._content import glance
from tests import by_hand as make

FIGURE = {"figure", "strong", "br", "img", "figcaption"}
TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}
MOST_TEXT, MOST_HTML = 4_000, 60_000  # characters


def swept(settings: int, leaking: int = 0) -> Results:
    leak, quiet = make.finding(0.5, leaked="leak", p_value=1e-9), make.finding(0.5)
    releases = [
        make.release("dp_sgd", make.guarantee(1.0 + i),
                     leak if i >= settings - leaking else quiet,
                     parameters={"epsilon": 1.0 + i}, seed=seed)
        for seed in (0, 1) for i in range(settings)
    ]  # fmt: skip
    return make.swept(releases, make.run(headline=["A sentence of a setting. " * settings]))


def cells(page: str) -> list[list[str]]:
    return [[cell.text or "" for cell in row] for row in ElementTree.fromstring(page).iter("tr")]


def tags(page: str) -> set[str]:
    return {element.tag for element in ElementTree.fromstring(page).iter()}


def pages(results: Results) -> tuple[str, str]:
    """The results as text, and as HTML."""
    shown = api.Shown.of(results)
    return repr(shown), shown._repr_html_()


def test_run_shows_a_row_a_release_and_a_picture(results: Results) -> None:
    text, page = pages(results)
    head, *rows = cells(page)
    assert head[:4] == ["Release", "Claimed ε, nats", "Leaked", "Claim"]
    assert [row[0] for row in rows] == [release.defense for release in results.releases]
    assert rows[1] == [
        "none", "none promised", "leak", "nothing claimed", "≥ 2.61 per user (add or remove)",
        "12.4 [9.92, 14.9]",
    ]  # fmt: skip
    assert rows[0][1] == "2 per part (part removed)" and rows[3][3] == "refuted"
    assert " ".join(results.headline) in page and page.count("<img") == 1
    assert text == str(api.Shown.of(results))


@pytest.mark.parametrize("settings", [10, 11, 50])
def test_glance_is_bounded_in_settings(settings: int) -> None:
    text, page = pages(swept(settings))
    assert len(text) < MOST_TEXT and len(page) < MOST_HTML
    rest = f"… and {settings - 10} more"
    assert (rest in text) == (rest in page) == (settings > 10)
    assert len(cells(page)) == 1 + min(10, settings)


def test_glance_is_bounded_in_names(hostile: Results) -> None:
    parameters = {"y" * 9_999: ["z" * 9_999] * 9}
    long = hostile.releases[0].changed(defense="x" * 9_999, parameters=parameters)
    many = [long.changed(seed=seed) for seed in range(13)]
    text, page = pages(hostile.model_copy(update={"releases": many, "headline": ["h" * 99_999]}))
    assert len(text) < MOST_TEXT and len(page) < MOST_HTML


def test_worst_settings_are_never_left_out() -> None:
    seen = glance.glance(swept(50, leaking=3))
    assert [row[2] for row in seen.table.rows].count("leak") == 3
    assert seen.table.rows[-1][0] == "dp_sgd epsilon=50"
    assert glance.glance(swept(50, leaking=12)).rest == (
        "… and 40 more, 2 of them with a leak or a refuted claim"
    )


def test_largest_bound_says_of_how_many_and_for_whom() -> None:
    inside = make.finding(0.9, epsilon_lower=make.bound(2.61), stronger_than_release=True)
    own = make.finding(0.1, metric="own", epsilon_lower=make.bound(0.0))
    (row,) = glance.glance(make.run(make.release("d", make.guarantee(8.0), own, inside))).table.rows
    assert row[4] == "≥ 2.61 per user (add or remove), of 2, insiders"


def test_hostile_names_are_text_without_a_script(hostile: Results) -> None:
    findings = api.findings(hostile)
    text, page = pages(hostile)
    assert tags(page) <= FIGURE | TABLE | {"div", "p"}
    assert tags(findings._repr_html_()) == TABLE
    shown = [text, page, repr(findings), findings._repr_html_()]
    for figure in api.figures(hostile):
        assert tags(figure._repr_html_()) == FIGURE
        shown += [figure.picture, figure._repr_html_()]
    for written in shown:
        assert not {"\u202e", "\x1b", "\x00"} & {*written}
        written.encode("utf-8")
    names = {key for element in ElementTree.fromstring(page).iter() for key in element.attrib}
    assert names == {"style", "alt", "src"}  # no id that could meet another's, no handler


def test_shown_results_are_the_results(results: Results) -> None:
    shown = api.Shown.of(results)
    assert shown == results and results == shown
    other = results.model_copy(update={"headline": ["other"]})
    assert shown != other and other != shown and shown != 3
    assert to_json(shown) == to_json(results) and shown.model_dump() == results.model_dump()
    assert isinstance(shown, api.Results) and Results.model_validate(shown) == shown
    for twin in (pickle.loads(pickle.dumps(shown)), copy.deepcopy(shown), shown.model_copy()):
        assert type(twin) is api.Shown and twin == results


def test_partial_run_is_called_not_complete(unfinished: Results) -> None:
    text, page = pages(unfinished)
    assert text.startswith("INCONCLUSIVE: ") and "\nThe run is not complete. " in text
    assert "The run is not complete. " in page and "<img" not in page


def test_glance_holds_no_sentence_of_a_finding() -> None:
    """Sentences, prefixes and outcomes stay where they are: only words and numbers are shown."""
    found = make.finding(0.5, sentence="SECRET-48213", test="SECRET", untested="SECRET")
    text, page = pages(make.run(make.release("submix", make.guarantee(2.0), found)))
    (picture,) = (e.attrib["src"] for e in ElementTree.fromstring(page).iter("img"))
    drawn = base64.b64decode(picture.partition(",")[2]).decode()
    assert "SECRET" not in text + page + drawn


def test_findings_have_a_row_each_beside_twins(results: Results) -> None:
    table = api.findings(results)
    head, *rows = cells(table._repr_html_())
    assert len(rows) == len(table) == 7 and {len(row) for row in rows} == {len(head)}
    first = dict(zip(head, rows[0], strict=True))
    assert (first["Release"], first["Attack"], first["n"]) == ("submix", "extraction", "100")
    assert first["Measured"].startswith("0\u00a0% [0") and first["Twins"].endswith("3\u00a0%]")
    assert first["In words"].startswith("A sentence about it. No test of the claim: ")
    undefended = dict(zip(head, next(row for row in rows if "none" in row[0]), strict=True))
    assert (undefended["Leaked"], undefended["Claim"]) == ("leak", "nothing claimed")
    plain = repr(table).splitlines()
    assert len(plain) == 8 and plain[0].split()[:3] == ["Release", "Attack", "Measure"]


def test_figure_is_an_image_with_words(results: Results) -> None:
    drawn = api.figures(results)
    assert len(drawn) == len(list(drawn)) > 2 and repr(drawn[0]) == drawn[0].alternative
    assert drawn[:2]._repr_html_() == drawn[0]._repr_html_() + drawn[1]._repr_html_()
    for figure in drawn:
        svg = ElementTree.fromstring(figure.picture)
        assert svg.tag == "{http://www.w3.org/2000/svg}svg" and "var(" not in figure.picture
        (image,) = ElementTree.fromstring(figure._repr_html_()).iter("img")
        assert image.attrib["alt"] == figure.alternative
        assert image.attrib["src"].startswith("data:image/svg+xml;base64,")


def test_frame_reads_findings_csv(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_csv(file: io.BytesIO, **how: Any) -> tuple[str, dict[str, Any]]:
        return file.read().decode("utf-8"), how

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(read_csv=read_csv))
    text, how = api.findings(results).frame()
    assert len(text.splitlines()) == 8 and text.startswith("plan_hash,corpus,defense,")
    assert how == {"keep_default_na": False, "na_values": [""]}  # the defense is called `none`
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        api.findings(results).frame()


def test_pandas_reads_none_and_infinity(results: Results) -> None:
    pytest.importorskip("pandas")
    frame = api.findings(results).frame()
    assert " ".join(frame["defense"]) == "submix submix none none as_is dp_sgd public"
    assert frame["value"].dtype == float and frame["value"].isna().sum() == 1
    assert frame["claimed_epsilon"].max() == float("inf")


def test_gate_takes_a_policy_and_no_partial_run(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = api.gate(results, strict=True)
    assert outcome.exit_code == 1 and outcome.strict  # dp_sgd is refuted
    assert {check.release for check in outcome.checks} >= {"submix", "dp_sgd"}
    policy = tmp_path / "other.toml"
    policy.write_text("[[limit]]\nattack = 'extraction'\nmetric = 'hit_rate'\nmax = 1.0\n")
    assert "limit" in {check.rule for check in api.gate(results, policy).checks}
    with pytest.raises(UsageError, match=r"nowhere\.json: "):
        api.gate(results, baseline="nowhere.json")
    with pytest.raises(UsageError, match="partial, not complete"):
        api.gate(results.changed(status="partial"))


def test_compare_names_both_runs(results: Results) -> None:
    fewer = results.model_copy(update={"releases": results.releases[:2]})
    assert "Y against X: " in api.compare(results, fewer, ("X", "Y"))
    assert "In one run only:" in api.compare(results, fewer)
    assert api.compare(results, results).startswith("Nothing differs.")
