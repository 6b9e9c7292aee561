"""Reads pages as a browser or a screen reader does, and checks that nothing in them acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from reports import html

VOID = {"meta", "br", "wbr", "img", "link", "input", "hr"}
SCRIPT = Path(html.__file__).parent / "_templates" / "attacks.js"
ACTIVE = ("iframe", "object", "embed", "link", "img", "base", "form")
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


class Page(HTMLParser):
    """Tags with their attributes, what was left open, and the text outside drawings and styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""
        self.script = ""
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
        elif self.open[-1:] == ["script"]:
            self.script += data
        elif "svg" not in self.open:
            self.text += data

    def named(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]

    def values(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.tags if name in attributes]


def assert_inert(source: str, links: str) -> None:
    """Asserts that a page fetches and hides nothing, and runs one script at most; its links match
    the expression `links` or lead to a name within, and names are unique."""
    page = Page(source)
    assert not page.open and not HIDDEN.search(source)
    assert not page.named(*ACTIVE)
    assert page.named("script") in ([], [{}])
    assert page.script in ("", SCRIPT.read_text(encoding="utf-8").strip())
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "style", (tag, name)
            if name in {"href", "src", "xlink:href", "action", "data"}:
                assert value is not None and re.fullmatch(rf"#[\w.-]+|{links}", value), (tag, value)
    assert "url(" not in page.style and "@import" not in page.style
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.values("href") if link.startswith("#")} <= set(ids)


def plain(text: str) -> str:
    """Runs of space as one, non-breaking ones too."""
    return re.sub(r"\s+", " ", text.replace("\u00a0", " "))
