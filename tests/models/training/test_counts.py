"""Counting what steps learn from: each method's counts by hand, and weights that do not notice."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from audit.core.counts import Counts, Piece
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.predictor import record_marks, record_tokens
from audit.core.training import Method, Training
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.fine_tuning import Recipe, fine_tune
from audit.models.training.learned_tokens import Tokens
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe

TEXTS = ("Good morning, my code is #40718.", "Thank you.")
PRIVATE = (((26, 31),), ())  # 40718
TUNED = Recipe(epochs=3, learning_rate=1e-3, batch_tokens=16, max_length=5)
NOISE = Noise(1.0, 1.0)
DP = PrivateRecipe(NOISE, 1.0, 4, 2, 1e-3, max_length=5)
SELECTIVE = SelectiveRecipe(
    NOISE, 1.0, 4, 2, 1e-3, "adamw", replace(TUNED, epochs=2), "reset", Noise(30.0, 1.0), 4
)
PAPER = AlternatingRecipe(NOISE, Noise(30.0, 1.0), 2, 2, 4, 2, 1e-3, 1e-3, "adamw", max_length=8)
LSTM, GPT2 = describe("lstm", EMBEDDED_FOLDER), describe("embedded", EMBEDDED_FOLDER)
TOKENIZER = load_tokenizer(GPT2)


def training(method: Method, **more: Any) -> Training:
    return Training("one", TEXTS, method, 3, ("a", "b"), PRIVATE, **more)


def counted(method: Method, base: Any = GPT2, **more: Any) -> list[list[int]]:
    """Train, and list how often each token of each text was learnt, the start token first."""
    one = training(method, **more)
    method.train(load_weights(base, "cpu"), TOKENIZER, one)
    times = [[0] * len(record_tokens(TOKENIZER, text)) for text in TEXTS]
    for text, runs in one.counts.of_texts().items():
        for low, high, count in runs:
            times[text][low : high + 1] = [count] * (high + 1 - low)
    return times


def each(private: int, public: int, most: int = 1000) -> list[list[int]]:
    """List the expected counts: a prediction is private if either of its tokens is."""
    marks = [record_marks(TOKENIZER, *one) for one in zip(TEXTS, PRIVATE, strict=True)]
    return [
        [0] + [
            (private if a or b else public) * (t < most)
            for t, (a, b) in enumerate(pairwise(one))
        ]
        for one in marks
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "base", "expected"),
    [
        (TUNED, GPT2, each(3, 3)),
        (DP, GPT2, each(4, 4)),
        (replace(DP, lora=2), GPT2, each(4, 4)),
        (replace(DP, physical_tokens=8), GPT2, each(4, 4)),  # one example in several blocks
        (SELECTIVE, LSTM, each(4, 2)),
        (replace(SELECTIVE, hidden="noise"), LSTM, each(4, 2)),
        (PAPER, LSTM, each(2, 2, most=8)),  # of a record it reads the first piece alone
    ],
)
def test_each_prediction_counts_once_a_step(
    method: Method, base: Any, expected: list[list[int]]
) -> None:
    assert counted(method, base) == expected


@pytest.mark.parametrize("method", [TUNED, DP])
def test_masked_tokens_count_nothing(method: Method) -> None:
    times = counted(method, learned=(((0, 24),), ((0, 9),)))
    whole = each(3, 3) if method is TUNED else each(4, 4)
    for text, end, mine, all_of_it in zip(TEXTS, (24, 9), times, whole, strict=True):
        inside = [at <= end for at in TOKENIZER.ends(text)]
        expected = [0, *(n * here for n, here in zip(all_of_it[1:], inside, strict=False)), 0]
        assert mine == expected


def test_counting_changes_no_weight() -> None:
    one, kept = training(TUNED), []
    for known in (True, False):
        model = load_weights(GPT2, "cpu")
        if known:
            TUNED.train(model, TOKENIZER, one)
        else:
            fine_tune(model, [record_tokens(TOKENIZER, text) for text in TEXTS], TUNED, one.seed)
        kept.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*kept)


def test_still_steps_count_nothing() -> None:
    counts = Counts()
    counts.step([Piece(0, 1, b"\1\1\0\1")], moved=True)
    counts.step([Piece(0, 2, b"\1\0")], moved=True)
    counts.step([Piece(0, 1, b"\1\1\1\1"), Piece(5, 1, b"\1")], moved=False)
    assert counts.of_texts() == {0: [[1, 1, 1], [2, 2, 2], [4, 4, 1]]}
    again = Counts()
    again.restore(counts.state())
    assert again.of_texts() == counts.of_texts()


def test_slices_of_tokens_keep_their_place() -> None:
    part = Tokens((5, 6, ~7, 8, 9, 4), text=3)[1:][1:4]
    assert (tuple(part), part.first) == ((~7, 8, 9), 2)
    assert part.piece == Piece(3, 3, b"\1\1")
    assert Tokens((5, 6, ~7), 3).piece == Piece(3, 1, b"\1\0")
