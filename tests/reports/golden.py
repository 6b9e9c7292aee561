"""The words that readers see, as text: `python -m tests.reports.golden` writes the golden files.

A change of words shows as a change of these files, to be read aloud in its review.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from audit import api
from reports import TwoRuns, html
from reports.exports.annex import FILENAME as ANNEX
from tests import by_hand
from tests.reports.pages import Page

FOLDER = Path(__file__).parent / "golden"
RULES = "Two answers, what leaked"  # begins what stands after page one


def told(source: str | bytes) -> str:
    """The text of a page: a line a block, cells apart, drawings and styles left out."""
    source = source if isinstance(source, str) else source.decode("utf-8")
    apart = re.sub(r"(</t[dh]>)(?!\s*</tr>)", r" | \1", source)
    apart = re.sub(r"</dt>\s*(?=<dd)", "</dt>: ", apart)
    apart = re.sub(r"(</dd>|</li>)(?=<dd|<li)", r"\1 · ", apart)
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in Page(apart).text.splitlines()]
    return "\n".join(filter(None, lines)) + "\n"


def page_one(source: str | bytes) -> str:
    return told(source).partition(RULES)[0]


def compared() -> bytes:
    files = html.Html().compared(TwoRuns(by_hand.ordinary(), by_hand.four_attacks()))
    return files[html.COMPARISON]


WORDS: dict[str, Callable[[], str]] = {
    "run": lambda: told(by_hand.text("html", by_hand.ordinary())),
    "four_attacks": lambda: page_one(by_hand.text("html", by_hand.four_attacks())),
    "sweep": lambda: page_one(by_hand.text("html", by_hand.on_two_seeds(by_hand.ordinary()))),
    "comparison": lambda: page_one(compared()),
    "annex": lambda: told(by_hand.files("annex", by_hand.ordinary())[ANNEX]),
    "model_index": lambda: by_hand.text("model_index", by_hand.ordinary()),
    "csv": lambda: by_hand.text("csv", by_hand.ordinary()),
    "terminal": lambda: f"{api.Shown.of(by_hand.ordinary())!r}\n",
}


def golden(name: str) -> Path:
    return FOLDER / f"{name}.txt"


if __name__ == "__main__":
    for name, words in WORDS.items():
        golden(name).write_text(words(), encoding="utf-8")
