"""How texts are read is remembered: by all seeds of a sweep, and up to a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from audit.core import model
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.model import TextTokenizer
from audit.models.loading import EMBEDDED, describe, load_tokenizer

FOLDER = describe(EMBEDDED, EMBEDDED_FOLDER)
WORDS = ("<unk>", "a", "b", "c")
TEXTS = [f"Order {number} has left the house." for number in range(200)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is read anew, from an empty memory on."""
    texts: list[str] = []
    add = model._Readings.add

    def adds(self: Any, inner: Any, batch: Sequence[str], reader: Any) -> None:
        texts.extend(batch)
        add(self, inner, batch, reader)

    monkeypatch.setattr(model._Readings, "add", adds)
    monkeypatch.setattr(model, "_known", model._Readings())
    monkeypatch.setattr(model, "_lengths", {})
    return texts


def test_seeds_of_a_sweep_read_each_text_once(read: list[str]) -> None:
    for _ in range(3):
        tokenizer = load_tokenizer(describe(EMBEDDED, EMBEDDED_FOLDER))
        tokenizer.read([*TEXTS, *TEXTS])
        for text in TEXTS:
            assert tokenizer.predicted(text) == len(tokenizer.encode(text)) + 1
            assert tokenizer.ends(text)[-1] == len(text)
    assert read == TEXTS


def test_counts_outlive_a_full_memory(read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_REMEMBERED", 1000)
    tokenizer = load_tokenizer(FOLDER)
    first = [tokenizer.predicted(text) for text in TEXTS]
    assert [tokenizer.predicted(text) for text in TEXTS] == first
    assert read == TEXTS


def test_reading_ahead_leaves_half_of_the_memory(
    read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_REMEMBERED", 1000)
    monkeypatch.setattr(model, "_TOGETHER", 5)
    load_tokenizer(FOLDER).read(TEXTS)
    assert read == TEXTS[: len(read)] and 5 <= len(read) < 20


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


def test_too_many_lengths_begin_anew(
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
