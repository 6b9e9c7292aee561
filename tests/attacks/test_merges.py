"""Whether a tokenizer keeps the symbols of a space apart, against looking at every value."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from attacks.search import merges
from attacks.search.merges import telling
from attacks.search.prefix_tree import tree_of
from audit.core.model import TextTokenizer
from audit.core.predictor import ListingTokenizer
from audit.core.secret import DIGITS, Space, digits
from tests.attacks.longest_words import LongestWords


class Listed(LongestWords):
    """The same, with a vocabulary that can be read."""

    def vocabulary(self) -> Collection[str]:
        return self.words


def of_digits(*merged: str, listed: bool = False) -> LongestWords:
    return (Listed if listed else LongestWords)(("^", "#", *DIGITS, *merged))


def wrapped(model: Any, pattern: Any, decoder: Any) -> TextTokenizer:
    inner = Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.Split(pattern, "isolated")
    inner.decoder = decoder
    return TextTokenizer(PreTrainedTokenizerFast(tokenizer_object=inner), 0, 0)


def unigram(*merged: str) -> TextTokenizer:
    """A word costs more than a digit and less than two."""
    words = [("<unk>", 0.0), *((sign, -3.0) for sign in "#0123456789")]
    model = models.Unigram([*words, *((word, -4.0) for word in merged)], unk_id=0)
    return wrapped(model, "^", decoders.Fuse())


def wordpiece(*merged: str) -> TextTokenizer:
    inside = [f"##{word}" for word in (*DIGITS, *merged)]
    words = ["[UNK]", "#", *DIGITS, *inside]
    model = models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    return wrapped(model, "#", decoders.WordPiece("##", False))


def whole_words(*merged: str) -> TextTokenizer:
    """Byte pairs without any pair: a group of three digits is one word if the vocabulary has it."""
    words = {word: i for i, word in enumerate(("#", *DIGITS, *merged))}
    model = models.BPE(words, [], ignore_merges=True)
    return wrapped(model, Regex(r"\d{1,3}"), decoders.Fuse())


@pytest.mark.parametrize(
    "made", [unigram, *(pytest.param(m, marks=pytest.mark.slow) for m in (wordpiece, whole_words))]
)
def test_a_vocabulary_that_merges_three_digits_and_no_pair_has_no_tree(made: Any) -> None:
    assert tree_of(made(), "#", digits(6)) is not None
    for word in ("123", "555"):
        tokenizer = made(word)
        assert len(tokenizer.encode(f"#{word}{word}")) < 7 == len(tokenizer.encode("#121212"))
        assert tree_of(tokenizer, "#", digits(6)) is None


@pytest.mark.parametrize("made", [unigram, pytest.param(wordpiece, marks=pytest.mark.slow)])
@pytest.mark.parametrize("word", ["12345", pytest.param("907856", marks=pytest.mark.slow)])
def test_a_word_that_hardly_any_value_has_is_found_in_the_vocabulary(made: Any, word: str) -> None:
    """Of 10⁷ values, 300 contain the first one, and 20 the second."""
    assert tree_of(made(word), "#", digits(7)) is None
    assert tree_of(of_digits(word, listed=True), "#", digits(7)) is None
    assert tree_of(of_digits(word), "#", digits(7)) is not None  # nobody can know


def test_words_of_other_signs_do_not_matter() -> None:
    listed = of_digits("1234x", "x123", "12-45", "12\n345", "ab", listed=True)
    assert isinstance(listed, ListingTokenizer) and not isinstance(of_digits(), ListingTokenizer)
    assert tree_of(listed, "#", digits(6)) is not None


ABC = Space((("a", "b", "c"),) * 6)
word = st.text("abc#", min_size=2, max_size=6)


@given(st.lists(word, min_size=1, max_size=3), st.sampled_from(["#", "#a", ""]))
@example(["abcabc"], "#")  # as long as a value
@example(["abacbac"], "#a")  # longer: with the end of the prefix
@example(["abacbac"], "#b")
def test_a_tree_is_refused_exactly_where_a_value_is_merged(words: list[str], prefix: str) -> None:
    """By the vocabulary alone: without all values of a small space, and without drawn ones."""
    tokenizer = Listed(("^", *"abc#", *dict.fromkeys(words)))
    head = tokenizer.encode(prefix)
    merged = any(
        tokenizer.encode(prefix + "".join(value)) != [*head, *map(tokenizer.words.index, value)]
        for value in itertools.product(*ABC.symbols)
    )
    with patch.object(merges, "_ALL", 0), patch.object(merges, "_DRAWN", 0):
        assert (tree_of(tokenizer, prefix, ABC) is None) == merged


@given(st.text("0123456789", min_size=3, max_size=3))
def test_a_small_space_is_checked_whole(word: str) -> None:
    assert tree_of(of_digits(word), "#", digits(3)) is None
    assert tree_of(of_digits(word), "#", digits(2)) is not None


@pytest.mark.parametrize("word", ["123", "987", "555", "818"])
def test_drawn_values_show_a_merge_of_three_where_nothing_is_listed(word: str) -> None:
    """One value of six digits in 250 contains it, and of five digits one in 333."""
    for length in (5, 6):
        assert tree_of(of_digits(word), "#", digits(length)) is None
    with patch.object(merges, "_DRAWN", 0):
        assert tree_of(of_digits(word), "#", digits(6)) is not None


def test_the_same_values_are_drawn_every_time_and_from_everywhere() -> None:
    symbols = (tuple("abc"), tuple("0123456789"), ("-",), tuple("0123456789"), tuple("xyzw"))
    drawn = list(telling(of_digits(), symbols))[-1000:]
    assert drawn == list(telling(of_digits(), symbols))[-1000:]
    for place, column in zip(symbols, zip(*drawn, strict=True), strict=True):
        assert set(column) == set(range(len(place)))
    assert len(set(drawn)) > 500
