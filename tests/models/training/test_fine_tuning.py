"""Fine-tuning: what is learned, what is counted, and that a seed decides everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.models.lstm import Architecture, untrained
from audit.models.training.fine_tuning import (
    IGNORED,
    Recipe,
    adamw,
    batches,
    cut,
    fine_tune,
    next_token_loss,
    pad,
    stepped,
    warmed,
)
from tests.models.alike import weights
from tests.refusals import refusals

RECIPE = Recipe(epochs=40, learning_rate=1e-2, batch_tokens=32, max_length=16)


def tiny(dropout: float = 0.0, layers: int = 1) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "n_positions": 16, "n_embd": 16, "n_layer": layers, "n_head": 2}
    drop = {name: dropout for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return GPT2LMHeadModel(GPT2Config(**sizes, **drop)).eval()


def test_a_sequence_is_learned_by_heart() -> None:
    model, sequence = tiny(), [0, 3, 1, 4, 1, 5, 9, 2, 6, 0]
    fine_tune(model, [sequence], RECIPE, seed=1)
    with torch.inference_mode():
        found = model(input_ids=torch.tensor([sequence[:-1]])).logits[0].argmax(dim=-1)
    # the second 1 follows another token than the first: only the context tells them apart
    assert found.tolist() == sequence[1:]


def test_tokens_are_counted_as_predictions_over_all_epochs() -> None:
    recipe = Recipe(epochs=3, learning_rate=1e-3, batch_tokens=8, max_length=4)
    sequences = [[0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert fine_tune(tiny(), sequences, recipe, seed=0) == 3 * (2 + 9)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_seed_decides_the_weights(dropout: float) -> None:
    found = []
    for seed in (5, 5, 6):
        model = tiny(dropout)
        torch.manual_seed(len(found))  # the global state differs, and must not matter
        expected = torch.rand(3)
        torch.manual_seed(len(found))
        fine_tune(model, TEXTS, Recipe(2, 1e-2, 8, 16), seed)
        found.append(weights(model))
        assert torch.equal(torch.rand(3), expected)  # nor is it moved
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_nothing_to_train_on_changes_nothing() -> None:
    model = tiny()
    before = weights(model)
    assert fine_tune(model, [], RECIPE, seed=0) == 0
    assert fine_tune(model, [[0]], RECIPE, seed=0) == 0
    assert torch.equal(weights(model), before)


def test_a_cut_sequence_predicts_each_token_once() -> None:
    sequence = list(range(11))
    rows = cut(sequence, 4)
    assert [list(row) for row in rows] == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [8, 9, 10]]
    assert [token for row in rows for token in row[1:]] == sequence[1:]


def test_batches_hold_all_rows_within_size() -> None:
    rows = [list(range(length)) for length in (3, 9, 3, 5, 12, 2, 2, 7)]
    found = list(batches(rows, 16, torch.Generator().manual_seed(0)))
    assert sorted(map(len, (row for batch in found for row in batch))) == sorted(map(len, rows))
    for batch in found:
        assert len(batch) == 1 or len(batch) * (max(map(len, batch)) - 1) <= 16


def test_padding_is_not_predicted() -> None:
    inputs, targets = pad([[1, 2, 3], [4, 5]])
    assert inputs.tolist() == [[1, 2], [4, 0]]
    assert targets.tolist() == [[2, 3], [5, IGNORED]]


def test_an_impossible_recipe_is_refused() -> None:
    bad: list[dict[str, Any]] = [
        *({"epochs": -1}, {"learning_rate": float("nan")}, {"batch_tokens": 0}, {"max_length": 0}),
        *({"warmup": 2.0}, {"weight_decay": -1.0}, {"beta2": 1.0}),
        *({"layers": word} for word in ("top", "top:-1", "top:1.5", "bottom:1", "")),
    ]
    fine = {"epochs": 1, "learning_rate": 1e-3, "batch_tokens": 8, "max_length": 8}
    refusals(lambda one: Recipe(**{**fine, **one}), [(one, next(iter(one))) for one in bad])


def test_the_learning_rate_rises_then_falls() -> None:
    recipe = Recipe(epochs=1, learning_rate=1.0, batch_tokens=8, max_length=8, warmup=0.2)
    rates = [recipe.learning_rate * warmed(step, 50, recipe.warmup) for step in range(50)]
    peak = rates.index(max(rates))
    assert 0 < peak <= 11 and 0 < rates[-1] < 0.1
    assert rates[:peak] == sorted(rates[:peak]) and rates[peak:] == sorted(rates[peak:])[::-1]


# which layers are trained

TEXTS = [[0, i, i + 1, 0] for i in range(1, 8)]


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_only_the_top_blocks_are_trained(weight_decay: float) -> None:
    for count in (1, 2, 3):
        recipe = Recipe(2, 1e-2, 8, 16, weight_decay=weight_decay, layers=f"top:{count}")
        before, model = tiny(layers=3), tiny(layers=3)
        fine_tune(model, TEXTS, recipe, seed=1)
        after = dict(model.named_parameters())
        moved = {name for name, p in before.named_parameters() if not torch.equal(p, after[name])}
        top = tuple(f"transformer.h.{i}." for i in range(3 - count, 3))
        assert moved == {name for name in after if name.startswith(top)}
        assert model.lm_head.weight is model.transformer.wte.weight
        assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("layers", ["all", "top:1"])
def test_steps_follow_the_whole_gradient(layers: str) -> None:
    """The same steps, taken by hand: the loss of every token reaches the top through all above."""
    recipe = Recipe(1, 1e-2, 64, 16, warmup=0.0, layers=layers)
    found, model = tiny(layers=2), tiny(layers=2)
    fine_tune(found, TEXTS, recipe, seed=1)
    chosen = [p for n, p in model.named_parameters() if layers == "all" or ".h.1." in n]
    optimizer = torch.optim.AdamW(chosen, weight_decay=0.0, fused=True)
    order = torch.Generator().manual_seed(1)
    list(batches(TEXTS, 64, order))  # the steps are counted first
    (batch,) = batches(TEXTS, 64, order)
    next_token_loss(model, batch).backward()
    stepped(optimizer, recipe.learning_rate * warmed(0, 1, recipe.warmup))
    assert torch.equal(weights(found), weights(model))
    assert (weights(found) - weights(tiny(layers=2))).abs().max() > 5e-3


def test_the_optimizer_holds_only_what_is_trained() -> None:
    recipe, model = replace(RECIPE, layers="top:1"), tiny(layers=2)
    for parameter in model.transformer.h[0].parameters():
        parameter.requires_grad_(False)
    held = {id(p) for group in adamw(model, recipe).param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters() if p.requires_grad}


def test_more_blocks_than_the_models_are_refused() -> None:
    two, network = tiny(layers=2), untrained(Architecture(12, 4, 4))
    refusals(
        lambda given: fine_tune(given[0], TEXTS, replace(RECIPE, layers=given[1]), seed=0),
        [
            ((two, "top:3"), "top:3, but this model has 2 blocks"),
            ((two, "top:0"), "top:0, but"),
            ((network, "top:1"), "has 0 blocks"),
        ],
    )
