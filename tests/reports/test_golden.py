"""Every word that readers see of runs made by hand is the one that was reviewed."""

from __future__ import annotations

import pytest

from tests.reports.golden import FOLDER, WORDS, golden


@pytest.mark.parametrize("name", WORDS)
def test_words_are_those_of_the_golden_file(name: str, undrawn: None) -> None:
    assert WORDS[name]() == golden(name).read_text(encoding="utf-8")


def test_every_golden_file_is_compared() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(WORDS)
