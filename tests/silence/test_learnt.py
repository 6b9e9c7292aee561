"""A drawn text among others: exact under independence, and small where a model learnt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from audit.contract.toys import Bigram, bigram
from audit.core.language_model import OpenSession
from audit.core.predictor import Answer
from audit.core.secret import Draw, Space
from audit.silence.accounts import Learnt
from audit.silence.learnt import Gain

SPACE = Space((("a", "b", "c"), ("a", "b", "c", "d"), ("a", "b", "d"), ("b", "c")))  # 72 texts
VALUES = ["".join(one) for one in product(*SPACE.symbols)]
MODEL = bigram(1)
WORDS = Draw(Space((tuple("abcdefghij"),) * 4), "cafe")


def opened(model: Bigram) -> OpenSession:
    return OpenSession(model, np.random.default_rng(0))


@dataclass(frozen=True)
class Fixed(Gain):
    """Gains by a table, for texts of their own."""

    table: dict[tuple[int, ...], float] | None = None

    def of(self, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
        assert self.table is not None
        return np.array([self.table[tuple(text)] for text in texts])


def fixed(gains: Sequence[float] | np.ndarray) -> Fixed:
    start = MODEL.tokenizer.start
    keys = [(start, *MODEL.tokenizer.encode(value)) for value in VALUES]
    return Fixed(opened(MODEL), None, table=dict(zip(keys, gains, strict=True)))


def test_rank_among_all_others_is_exact() -> None:
    """The nine highest of 72 gains have the p-values 1/72 to 9/72; ties count against a text."""
    gain = fixed(np.arange(72.0))
    for below in range(9):
        draw = Draw(SPACE, VALUES[71 - below])
        seen = gain.learnt(draw, "", 9_999, np.random.default_rng(below))
        assert seen == Learnt((1 + below) / 72, 71)
    tied = fixed(np.ones(72))
    seen = tied.learnt(Draw(SPACE, VALUES[3]), "", 9_999, np.random.default_rng(0))
    assert seen == Learnt(1.0, 10)


@pytest.mark.parametrize("gain", [np.nan, -np.inf])
def test_gain_that_is_no_number_is_not_evidence(gain: float) -> None:
    gains = fixed([gain, *np.arange(71.0)])
    seen = gains.learnt(Draw(SPACE, VALUES[0]), "", 50, np.random.default_rng(0))
    assert seen.p_value == 1.0


def test_p_values_keep_their_level_under_independence() -> None:
    """Any gains, and a text drawn apart from them: P(p <= a) <= a, at a ten-thousandth's error."""
    generator = np.random.default_rng(5)
    gain = fixed(generator.integers(0, 40, 72).astype(float))  # with ties
    draws = [Draw(SPACE, VALUES[int(generator.integers(72))]) for _ in range(3_000)]
    p_values = np.array([gain.learnt(one, "", 39, generator).p_value for one in draws])
    for level in (0.025, 0.05, 0.1, 0.25, 0.5):
        assert (p_values <= level).mean() <= level + 3.7 * np.sqrt(level * (1 - level) / 3_000)
    assert (p_values <= 0.25).mean() > 0.15  # no level is kept by never rejecting


def test_gain_is_the_sum_over_the_text_alone() -> None:
    """After "da", of "cb": two steps of the audited model less two of the base."""
    base, tokenizer = bigram(2), MODEL.tokenizer
    tokens = [tokenizer.start, *tokenizer.encode("dacb")]
    *_, a, c, b = tokens
    by_hand = MODEL.log_table[a, c] + MODEL.log_table[c, b]
    by_hand -= base.log_table[a, c] + base.log_table[c, b]
    gain = Gain(opened(MODEL), opened(base))
    assert gain.of([tokens, tokens], 3) == pytest.approx([by_hand, by_hand])


def test_model_that_learnt_a_text_shows_it() -> None:
    """A table that favours two steps of one text by a nat each ranks it first, at 1 in 72."""
    steps = [MODEL.tokenizer.encode(pair) for pair in ("bd", "dd")]
    table = MODEL.log_table.copy()
    for last, following in steps:
        table[last, following] += 1.0
    gain = Gain(opened(replace(MODEL, log_table=table)), opened(MODEL))
    seen = gain.learnt(Draw(SPACE, "bddc"), "", 71, np.random.default_rng(0))
    alike = sum("bdd" in value for value in VALUES)  # gain as much
    assert seen == Learnt(alike / 72, 71)


class Letters:
    start = stop = 0

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


class Scoring:
    """A session of which each letter has one log-probability; "cafe" gains, after ">"."""

    tokenizer: Any = Letters()
    max_length = 10

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
    ("gain", "learnt"),
    [(500.0, Learnt(0.001, 999)), (0.0, Learnt(1.0, 10)), (np.nan, Learnt(1.0, 10))],
    ids=["learnt", "unlearnt", "not a number"],
)
def test_drawn_words_rank_by_their_gain(gain: float, learnt: Learnt) -> None:
    """The base scores alike but for the gain, so without any all are as high."""
    audited: Any = Scoring(gain)
    base: Any = Scoring(0.0)
    found = Gain(audited, base).learnt(WORDS, ">", 999, np.random.default_rng(0))
    assert found == learnt


def test_without_base_the_log_probability_ranks() -> None:
    """Letters late in the alphabet are likelier: "cafe" is beaten by most of the others.

    So few others are scored, since ten are soon as high.
    """
    audited: Any = Scoring(0.0)
    found = Gain(audited, None, 50).learnt(WORDS, ">", 999, np.random.default_rng(0))
    assert found.p_value > 0.5 and audited.scored <= 2 * 50
