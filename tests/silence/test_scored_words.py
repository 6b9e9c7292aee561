"""The rank of the drawn words among others, by the scores of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.core.predictor import Answer
from audit.core.secret import Draw, Space
from audit.silence import scored_words
from audit.silence.drawn_words import Sentence

LETTERS = tuple("abcdefghij")
SENTENCE = Sentence(">", Draw(Space((LETTERS,) * 4), "cafe"))


class Letters:
    start = stop = 0

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


class Scoring:
    """A session of which each letter has one log-probability; "cafe" gains, after ">"."""

    tokenizer: Any = Letters()

    def __init__(self, gain: float) -> None:
        self.gain, self.scored = gain, 0

    def score(self, heads: Sequence[list[int]], tails: Sequence[list[int]]) -> list[Answer]:
        self.scored += len(tails)
        assert all(head == [0, ord(">")] for head in heads)  # alike for all, so never scored
        rows = [np.array(tail, dtype=float) for tail in tails]
        gains = [self.gain * (bytes(tail) == b"cafe") for tail in tails]
        return [
            Answer(tuple(t), r + g, r > 0, len(t))
            for t, r, g in zip(tails, rows, gains, strict=True)
        ]


@pytest.mark.parametrize(
    ("gain", "p", "n"),
    [(500.0, 0.001, 999), (0.0, 1.0, 10), (np.nan, 1.0, 10)],
    ids=["learnt", "unlearnt", "not a number"],
)
def test_drawn_words_rank_by_their_gain(gain: float, p: float, n: int) -> None:
    """The base scores alike but for the gain, so without any all are as high."""
    audited: Any = Scoring(gain)
    base: Any = Scoring(0.0)
    found = scored_words.look(audited, base, SENTENCE, 999, np.random.default_rng(0))
    assert (found.p_value, found.n) == (p, n)


def test_without_base_the_log_probability_ranks() -> None:
    """Letters late in the alphabet are likelier: "cafe" is beaten by most of the others."""
    audited: Any = Scoring(0.0)
    found = scored_words.look(audited, None, SENTENCE, 999, np.random.default_rng(0))
    assert found.p_value > 0.5 and audited.scored <= 1 + 2 * 50
