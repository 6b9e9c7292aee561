"""The best step on held-out text: found where a model overfits, and nothing else changes by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.training import Training
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.best_step import LOOKS, TOKENS, Watch, opening
from audit.models.training.fine_tuning import Recipe, next_token_loss

FOLDER = describe("embedded", EMBEDDED_FOLDER)
RECIPE = Recipe(epochs=1, learning_rate=5e-3, batch_tokens=64, max_length=64)
FEW = tuple(f"My room number is {i} and nothing else." for i in range(4))
HELDOUT = ("Hello, how can I help you today?", "The parcel was sent on Monday.")


def trained(recipe: Recipe, **fields: Any) -> Any:
    model, tokenizer = load_weights(FOLDER, "cpu"), load_tokenizer(FOLDER)
    training = Training("t", FEW, recipe, seed=1, **fields)
    best = recipe.train(model, tokenizer, training)
    return model, tokenizer, best


def loss(model: Any, tokenizer: Any) -> float:
    rows = opening(HELDOUT, tokenizer)
    with torch.no_grad():
        return float(next_token_loss(model.eval(), rows))


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.values(), other.values(), strict=True))


def test_looking_changes_no_weight() -> None:
    recipe = replace(RECIPE, epochs=6)
    plain, *_ = trained(recipe)
    watched, *_ = trained(recipe, heldout=HELDOUT)
    assert same(plain.state_dict(), watched.state_dict())


def test_overfitting_has_an_earlier_best_step() -> None:
    model, tokenizer, best = trained(replace(RECIPE, epochs=60), heldout=HELDOUT)
    at_end = loss(model, tokenizer)
    assert best is not None
    assert best.share < 1
    model.load_state_dict(dict(best.weights))
    assert loss(model, tokenizer) < at_end


def test_held_out_text_trained_on_has_none() -> None:
    model, tokenizer = load_weights(FOLDER, "cpu"), load_tokenizer(FOLDER)
    training = Training("t", FEW, replace(RECIPE, epochs=20), seed=1, heldout=FEW)
    assert training.method.train(model, tokenizer, training) is None


@pytest.mark.parametrize(
    "losses, best", [([3, 1, 2, 4], 0.5), ([3, 2, 2, 4], 0.75), ([4, 3, 2, 1], None)]
)
def test_the_later_of_least_losses_is_best(losses: list[float], best: float) -> None:
    seen, given = [], iter(losses)
    model = torch.nn.Linear(1, 1)
    watch = Watch(model, [[[0, 1]]], lambda *_: torch.tensor(next(given)), seen.append)  # type: ignore[arg-type]
    for share in (0.25, 0.5, 0.75, 1.0):  # each is due: there are fewer steps than looks
        watch.step(share)
    assert (watch.best.share if watch.best else None) == best
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_there_are_eight_looks_however_many_steps() -> None:
    looks: list[int] = []
    watch = Watch(
        torch.nn.Linear(1, 1), [[[0, 1]]],  # type: ignore[arg-type]
        lambda *_: torch.tensor(float(looks.append(1) or 1.0)), lambda _: None,
    )  # fmt: skip
    for step in range(1000):
        watch.step((step + 1) / 1000)
    assert len(looks) == LOOKS


def test_held_out_text_is_read_until_enough() -> None:
    tokenizer = load_tokenizer(FOLDER)
    rows = opening(["word " * 100] * 100, tokenizer)
    counts = [len(row) - 1 for row in rows]
    assert sum(counts[:-1]) < TOKENS <= sum(counts)


def test_held_out_text_is_in_the_digest() -> None:
    plain = Training("t", FEW, RECIPE, seed=1)
    assert plain.digest != replace(plain, heldout=HELDOUT).digest


@pytest.mark.parametrize("value", [float("nan"), 1.0])
def test_a_resumed_watch_has_the_same_best_step(value: float) -> None:
    model = torch.nn.Linear(1, 1)
    first, resumed = (
        Watch(model, [[[0, 1]]], lambda *_: torch.tensor(value), lambda _: None)  # type: ignore[arg-type]
        for _ in range(2)
    )
    first.step(0.5)
    resumed.restore(first.state())
    assert (resumed.best is None) == (first.best is None)
    if resumed.best is not None and first.best is not None:
        assert resumed.best.share == first.best.share
        assert same(resumed.best.weights, first.best.weights)
