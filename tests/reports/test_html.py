"""The HTML report is inert, self-contained, accessible and reproducible."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from audit.results.schema import Results, to_json
from reports import html
from reports._content.verdicts import MEANINGS
from tests import by_hand
from tests.reports.pages import Page, assert_inert


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return {name: by_hand.text("html", build()) for name, build in by_hand.EVERY.items()}


def test_no_text_runs_and_nothing_is_fetched(sources: dict[str, str]) -> None:
    for source in sources.values():
        assert_inert(source, links="$.")  # but to itself


def test_the_policy_allows_this_style_this_script_and_nothing_else(
    sources: dict[str, str],
) -> None:
    page = Page(sources["results"])
    policy = next(m for m in page.named("meta") if m.get("http-equiv"))["content"]
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (page.style, page.script)
    )
    assert page.script and len(page.named("style")) == 1
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "script" not in sources["unfinished"]  # it has no table to sort
    assert "No release was audited" in sources["unfinished"]


def test_hostile_text_is_visible(sources: dict[str, str]) -> None:
    text = Page(sources["hostile"]).text
    assert "<script>alert(1)</script>" in text and '#eval("1+1")' in text and "{{7*7}}" in text
    assert "‹U+202E›exe.gnp" in text and "‹U+001B›[31m" in text and "‹U+D800›" in text


def test_every_verdict_has_its_word_and_its_shape(sources: dict[str, str]) -> None:
    for label in MEANINGS:
        shape = rf'<svg class="mark"[^>]*>.*?</svg> {re.escape(label)}</span>'
        assert re.search(shape, sources["results"]), label


def test_landmarks_and_tables_can_be_read_aloud(sources: dict[str, str]) -> None:
    page = Page(sources["four"])
    assert page.named("html") == [{"lang": "en"}]
    assert len(page.named("h1")) == len(page.named("main")) == len(page.named("header")) == 1
    assert any(meta.get("name") == "viewport" for meta in page.named("meta"))
    assert len(page.named("table")) == len(page.named("caption")) > 3
    assert all("scope" in cell for cell in page.named("th"))
    drawings = [d for d in page.named("div") if d.get("role") == "img"]
    assert len(drawings) == len(page.named("figure")) > 0
    assert all(len(drawing["aria-label"] or "") > 40 for drawing in drawings)
    regions = [d for d in page.named("div", "pre") if "scroll" in (d.get("class") or "")]
    assert regions and all(r.get("tabindex") == "0" and r.get("aria-label") for r in regions)


def test_the_same_results_give_the_same_bytes(results: Results, sources: dict[str, str]) -> None:
    again = Results.model_validate_json(to_json(results))
    assert by_hand.text("html", again) == sources["results"]


def test_text_has_enough_contrast_in_both_modes() -> None:
    css = (Path(html.__file__).parent / "_templates" / "report.css").read_text(encoding="utf-8")
    for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", block))
        for name in ("ink", "muted", "accent", "alarm"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, (name, colours)


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_measure_of_page_one_leads_to_all_of_its_attack(sources: dict[str, str]) -> None:
    targets = re.findall(r'<th scope="row"><a href="#(attack-\d+)">', sources["four"])
    assert len(set(targets)) == 4
    for target in targets:
        assert sources["four"].count(f'<h3 id="{target}">') == 1
