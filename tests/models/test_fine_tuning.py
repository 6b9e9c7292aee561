"""Fine-tuning: what is learned, what is counted, and that a seed decides everything."""

from __future__ import annotations

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from audit.errors import UsageError
from audit.models.fine_tuning import IGNORED, Recipe, batches, cut, fine_tune, pad

RECIPE = Recipe(epochs=40, learning_rate=1e-2, batch_tokens=32, max_length=16)


def tiny(dropout: float = 0.0) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    drop = {name: dropout for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    return GPT2LMHeadModel(GPT2Config(**sizes, **drop)).eval()


def weights(model: GPT2LMHeadModel) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


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
    texts = [[0, i, i + 1, 0] for i in range(1, 8)]
    found = []
    for seed in (5, 5, 6):
        model = tiny(dropout)
        torch.rand(seed)  # the global state differs, and must not matter
        fine_tune(model, texts, Recipe(2, 1e-2, 8, 16), seed)
        found.append(weights(model))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_global_random_state_is_left_alone() -> None:
    model = tiny(0.3)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fine_tune(model, [[0, 1, 2, 0]], Recipe(2, 1e-2, 8, 16), seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_nothing_to_train_on_changes_nothing() -> None:
    model = tiny()
    before = weights(model)
    assert fine_tune(model, [], RECIPE, seed=0) == 0
    assert fine_tune(model, [[0]], RECIPE, seed=0) == 0
    assert torch.equal(weights(model), before)


def test_a_long_sequence_is_cut_and_every_token_predicted_once() -> None:
    sequence = list(range(11))
    rows = cut(sequence, 4)
    assert [list(row) for row in rows] == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8], [8, 9, 10]]
    assert [token for row in rows for token in row[1:]] == sequence[1:]


def test_every_row_is_in_one_batch_and_batches_keep_their_size() -> None:
    rows = [list(range(length)) for length in (3, 9, 3, 5, 12, 2, 2, 7)]
    found = list(batches(rows, 16, torch.Generator().manual_seed(0)))
    assert sorted(map(len, (row for batch in found for row in batch))) == sorted(map(len, rows))
    for batch in found:
        assert len(batch) == 1 or len(batch) * (max(map(len, batch)) - 1) <= 16


def test_padding_is_not_predicted() -> None:
    inputs, targets = pad([[1, 2, 3], [4, 5]])
    assert inputs.tolist() == [[1, 2], [4, 0]]
    assert targets.tolist() == [[2, 3], [5, IGNORED]]


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": -1},
        {"learning_rate": float("nan")},
        {"batch_tokens": 0},
        {"max_length": 0},
        {"warmup": 2.0},
        {"weight_decay": -1.0},
        {"beta2": 1.0},
    ],
)
def test_an_impossible_recipe_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))):
        Recipe(**{"epochs": 1, "learning_rate": 1e-3, "batch_tokens": 8, "max_length": 8, **bad})


def test_the_learning_rate_rises_then_falls() -> None:
    recipe = Recipe(epochs=1, learning_rate=1.0, batch_tokens=8, max_length=8, warmup=0.2)
    rates = [recipe.rate(step, 50) for step in range(50)]
    peak = rates.index(max(rates))
    assert 0 < peak <= 11 and 0 < rates[-1] < 0.1
    assert rates[:peak] == sorted(rates[:peak]) and rates[peak:] == sorted(rates[peak:])[::-1]
