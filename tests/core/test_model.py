"""Tokenizers: how texts are read is remembered, within limits of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from audit.core import model
from audit.core.model import TextTokenizer

WORDS = ("<unk>", "a", "b", "c")


def tokenizer() -> TextTokenizer:
    inner = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token=WORDS[0])
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return TextTokenizer(PreTrainedTokenizerFast(tokenizer_object=inner), 0, 0)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join), max_size=20))
def test_readings_never_exceed_their_limit_beyond_one_batch(texts: list[str]) -> None:
    limit, together = 200, 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "_REMEMBERED", limit)
        patch.setattr(model, "_TOGETHER", together)
        readings = model._Readings()
        patch.setattr(model, "_known", readings)
        one = tokenizer()
        one.read(texts)
        for text in texts:
            assert one.encode(text) == [WORDS.index(word) for word in text.split()]
            assert one.predicted(text) == 1 + len(text.split())
            held = sum(len(ids) + 32 for ids, _ in readings.values())
            assert held == readings.tokens
            assert held <= limit or len(readings) <= together


def test_lengths_of_texts_begin_anew_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: dict[object, int] = {}
    monkeypatch.setattr(model, "_lengths", lengths)
    monkeypatch.setattr(model, "_MOST_LENGTHS", 4)
    one = tokenizer()
    for n in [*range(9), *range(9)]:
        assert one.predicted("a " * n) == 1 + n
        assert len(lengths) <= 4


def test_a_length_is_of_its_tokenizer() -> None:
    other = TextTokenizer(tokenizer().inner, 0, 0)
    other.inner.add_tokens(["a b"])
    assert [one.predicted("a b") for one in (tokenizer(), other)] == [3, 2]
