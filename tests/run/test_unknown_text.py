"""Warnings about text that a base does not know, and about English in other scripts."""

from __future__ import annotations

import pytest

from audit.core.corpus import Record
from audit.corpora import scripts
from audit.run.unknown_text import of_base


@pytest.mark.parametrize(
    ("perplexity", "vocabulary", "tokens", "warned"),
    [
        (20.0, 50_000, 0.25, False),  # 1.1 bits a byte, as of English
        (50_000.0, 50_000, 0.25, True),  # every token alike
        (256.0, 50_000, 1.0, True),  # every byte alike, though few of the tokens are bytes
        (8.0, 50_000, 1.0, False),  # 3 bits of 8
        (2.0, 2, 1.0, True),
    ],
)
def test_base_near_chance_is_named(
    perplexity: float, vocabulary: int, tokens: float, warned: bool
) -> None:
    told = of_base(perplexity, vocabulary, tokens)
    assert bool(told) == warned == ("--template" in told)


def test_texts_in_other_scripts_are_named_with_the_remedy() -> None:
    texts = ["Мой код доступа", "我的密码", "my code", "mon numéro"]
    records = [Record(f"u{i}", text) for i, text in enumerate(texts)]
    assert scripts.foreign(records) == 2 and not scripts.warning(records)
    told = scripts.warning(records[:3])
    assert "2 of 3 real records are not" in told and "--template" in told
