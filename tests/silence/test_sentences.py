"""A drawn text among others: exact under independence, and small where a model learnt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from audit.contract.toys import bigram
from audit.core.secret import Draw, Space
from audit.silence.sentences import Gain, Learnt, learnt

SPACE = Space((("a", "b", "c"), ("a", "b", "c", "d"), ("a", "b", "d"), ("b", "c")))  # 72 texts


@dataclass(frozen=True)
class Fixed(Gain):
    """Gains by a table, for texts of their own."""

    table: dict[tuple[int, ...], float]

    def of(self, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
        return np.array([self.table[tuple(text)] for text in texts])


VALUES = ["".join(one) for one in product(*SPACE.symbols)]
MODEL = bigram(1)


def fixed(gains: Sequence[float] | np.ndarray) -> Fixed:
    keys = [tuple(tokens) for tokens in Gain(MODEL, None).tokens("", VALUES)]
    return Fixed(MODEL, None, dict(zip(keys, gains, strict=True)))


def test_rank_among_all_others_is_exact() -> None:
    """The nine highest of 72 gains have the p-values 1/72 to 9/72; ties count against a text."""
    gain = fixed(np.arange(72.0))
    for below in range(9):
        draw = Draw(SPACE, VALUES[71 - below])
        seen = learnt(draw, "", gain, 9_999, np.random.default_rng(below))
        assert seen == Learnt(below, 71, 71)
        assert seen.p_value == (1 + below) / 72
    tied = fixed(np.ones(72))
    seen = learnt(Draw(SPACE, VALUES[3]), "", tied, 9_999, np.random.default_rng(0))
    assert seen == Learnt(10, 10, 71)
    assert seen.p_value == 1.0


@pytest.mark.parametrize("gain", [np.nan, -np.inf])
def test_gain_that_is_no_number_is_not_evidence(gain: float) -> None:
    gains = fixed([gain, *np.arange(71.0)])
    seen = learnt(Draw(SPACE, VALUES[0]), "", gains, 50, np.random.default_rng(0))
    assert seen.p_value == 1.0


def test_p_values_keep_their_level_under_independence() -> None:
    """Any gains, and a text drawn apart from them: P(p <= a) <= a, at a ten-thousandth's error."""
    generator = np.random.default_rng(5)
    gain = fixed(generator.integers(0, 40, 72).astype(float))  # with ties
    draws = [Draw(SPACE, VALUES[int(generator.integers(72))]) for _ in range(3_000)]
    p_values = np.array([learnt(one, "", gain, 39, generator).p_value for one in draws])
    for level in (0.025, 0.05, 0.1, 0.25, 0.5):
        assert (p_values <= level).mean() <= level + 3.7 * np.sqrt(level * (1 - level) / 3_000)
    assert (p_values <= 0.25).mean() > 0.15  # no level is kept by never rejecting


def test_gain_is_the_sum_over_the_text_alone() -> None:
    """After "da", of "cb": two steps of the audited model less two of the base."""
    base = bigram(2)
    gain = Gain(MODEL, base)
    (tokens,) = gain.tokens("da", ["cb"])
    *_, a, c, b = tokens
    assert MODEL.tokenizer.decode(tokens) == "^dacb"
    by_hand = MODEL.log_table[a, c] + MODEL.log_table[c, b]
    by_hand -= base.log_table[a, c] + base.log_table[c, b]
    assert gain.of([tokens, tokens], 3) == pytest.approx([by_hand, by_hand])


def test_model_that_learnt_a_text_shows_it() -> None:
    """A table that favours two steps of one text by a nat each ranks it first, at 1 in 72."""
    steps = [MODEL.tokenizer.encode(pair) for pair in ("bd", "dd")]
    table = MODEL.log_table.copy()
    for last, following in steps:
        table[last, following] += 1.0
    gain = Gain(replace(MODEL, log_table=table), MODEL)
    seen = learnt(Draw(SPACE, "bddc"), "", gain, 71, np.random.default_rng(0))
    assert seen.as_high == sum("bdd" in value for value in VALUES) - 1
