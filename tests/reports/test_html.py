"""The HTML report is inert, self-contained, accessible, complete and reproducible."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from audit.results.schema import Results
from reports import html
from reports._content import page as pages
from reports._content.verdicts import MEANINGS

VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, and the text outside style elements."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data

    def named(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="module")
def page(results: Results) -> Page:
    return Page(html.render(results))


@pytest.fixture(scope="module")
def four_page(four: Results) -> Page:
    return Page(html.render(four))


@pytest.fixture(params=["page", "four_page"])
def any_page(request: pytest.FixtureRequest) -> Page:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Page)
    return found


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\u00a0", " "))


@pytest.mark.parametrize("which", ["results", "hostile", "hostile_four", "unfinished"])
def test_nothing_runs_and_nothing_is_fetched(
    which: str, request: pytest.FixtureRequest
) -> None:  # fmt: skip
    page = Page(html.render(request.getfixturevalue(which)))
    assert not page.open
    assert not page.named("script", "iframe", "object", "embed", "link", "img", "base", "form")
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "style", (tag, name)
            if name in {"href", "src", "xlink:href", "action", "data"}:
                assert value is not None and value.startswith("#"), (tag, name, value)
    assert "url(" not in page.style and "@import" not in page.style


def test_the_policy_allows_this_style_and_nothing_else(page: Page) -> None:
    policy = next(m for m in page.named("meta") if m.get("http-equiv"))["content"]
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy and f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy and len(page.named("style")) == 1


def test_hostile_text_is_visible_and_hides_nothing(hostile: Results) -> None:
    source = html.render(hostile)
    text = Page(source).text
    assert "<script>alert(1)</script>" in text and '#eval("1+1")' in text and "{{7*7}}" in text
    assert "‹U+202E›exe.gnp" in text and "‹U+001B›[31m" in text and "‹U+D800›" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]",
                         source)  # fmt: skip


def test_every_number_of_page_one_appears(page: Page) -> None:
    text = plain(page.text.split("How to read it")[0])
    for told in (
        "submix: no leak found by extraction.",
        "ε = 2 nats per part (part removed), Rényi order α = 2",
        "ε = 8 nats per user (add or remove), δ = 1 × 10⁻⁵",
        "ε unknown per user (add or remove)",
        "96 % [91 %, 99.62 %]",
        "0 % [0 %, 3.6 %]",
        "0 % [0 %, 3 %]",
        "0.613 [0.55, 0.68]",
        "ε = 4.91 nats per part (part removed), as published",
        "1,540 records of 190 users, 3 near-duplicates",
        "120 decided by a fair coin: 61 planted, 59 twins; 61 trained on in all",
        "Undefended: a model trained on the text as it is.",
        "Public: a model that never saw the text.",
        "embedded",
        "STOP timing was not attacked",
        "audit run --defense submix --attack extraction",
        "Plan hash 1f3a9c2e",
    ):
        assert told in text, told


def test_page_one_tells_the_controls_and_what_could_have_been_seen(four_page: Page) -> None:
    text = plain(four_page.text.split("How to read it")[0])
    for told in (
        "extraction, hit rate 7 measures, all: no leak found0 % [0 %, 3.6 %], n = 100",
        "a rate of 4.8 % would have been called a leak",
        "82 % [77 %, 85.6 %]96 % [91 %, 99.6 %]0 % [0 %, 3.6 %]",
        "insiders only; 35 measures: 24 × leak · 1 × no leak found · 10 × not measured",
        "blind 0.51 [0.44, 0.58]",
        "Unprotected: its own models without the protection.",
        "4 of 192 findings are shown; Attacks has all of them.",
    ):
        assert told in text, told


def test_p_values_tell_their_sides(four_page: Page) -> None:
    text = plain(four_page.text.split("Each release")[-1])
    assert "0.41 (two-sided, unadjusted)" in text and "0.41 (one-sided, unadjusted)" in text


def test_details_state_power_spending_and_bound(page: Page) -> None:
    text = plain(page.text.split("Each release")[-1])
    assert "n = 100 could have shown a share of generations of 2.9 %" in text
    assert "ε = 1.46 nats per part (part removed), by the extraction session" in text
    assert "of ε = 2 promised (73 %)" in text
    assert "ε ≥ 2.61 nats per user (add or remove) at δ = 1 × 10⁻⁵, 95 % confidence" in text
    assert "116 of 119 guesses right on 120 coins" in text
    assert "beta=0.00195312" in text and "releases of one corpus compose" in text


def test_every_verdict_has_its_word_and_its_shape(results: Results) -> None:
    source = html.render(results)
    for label in MEANINGS:
        assert re.search(rf'<svg class="mark"[^>]*>.*?</svg> {re.escape(label)}</span>', source), (
            label
        )


def test_landmarks_and_tables_can_be_read_aloud(any_page: Page) -> None:
    page = any_page
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


def test_identifiers_are_unique_and_links_have_targets(any_page: Page) -> None:
    page = any_page
    ids = Counter(a["id"] for _, a in page.tags if "id" in a)
    assert max(ids.values()) == 1
    links = {(a["href"] or "")[1:] for _, a in page.tags if "href" in a}
    assert links <= set(ids)


def test_an_unfinished_run_says_so(unfinished: Results) -> None:
    text = Page(html.render(unfinished)).text
    assert "This run did not finish" in text and "No release was audited" in text


def test_two_runs_give_the_same_bytes(results: Results, tmp_path: Path) -> None:
    first = html.write(results, tmp_path).read_bytes()
    pages._content.cache_clear()
    assert html.write(results, tmp_path).read_bytes() == first
    assert (tmp_path / html.FILENAME).exists()


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
    red, green, blue = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
              for c in (red, green, blue)]  # fmt: skip
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_each_measure_of_page_one_leads_to_all_of_its_attack(four: Results) -> None:
    page = html.render(four)
    targets = re.findall(r'<th scope="row"><a href="#(attack-\d+)">', page)
    assert len(set(targets)) == 4
    for target in targets:
        assert page.count(f'<h3 id="{target}">') == 1
