"""Activation checkpointing: the same losses, sums and weights, with less kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.training import Training
from audit.models.adapters import freeze, fresh
from audit.models.lstm import Architecture, untrained
from audit.models.measuring import Peak
from audit.models.training import per_example_gradients, recomputation
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.examples import collated, examples_of
from audit.models.training.fine_tuning import Recipe, fine_tune, next_token_loss
from audit.models.training.per_example_gradients import (
    Batch,
    clipped_gradients,
)
from audit.models.training.recomputation import recomputed
from audit.plan.resolve import resolve
from tests.models.shapes import BY_NAME, CONTEXT, OWNERS, TEXTS, tokenizer

NAMES = ("GPT-2", "Llama", "Llama, tied")
EXACT = 1e-5
RECIPE = Recipe(epochs=2, learning_rate=1e-2, batch_tokens=16, max_length=CONTEXT)
PRIVATE = PrivateRecipe(Noise(0.5, 1.0), 0.7, 3, 3, learning_rate=1e-2, max_length=CONTEXT)
TRAINING = Training("t", TEXTS, RECIPE, 0, OWNERS)


def made(name: str, lora: bool = False, **changes: Any) -> Any:
    """A model of two blocks."""
    shape = BY_NAME[name]
    depth = {"num_hidden_layers": 2, **({"n_layer": 2} if "n_layer" in shape.changes else {})}
    model = replace(shape, changes={**shape.changes, **depth, **changes}).make()
    if not lora:
        return model
    freeze(model)
    inner = fresh(model, Lora(2, 4))
    draw = torch.Generator().manual_seed(1)
    for parameter in inner.parameters():
        if parameter.requires_grad:  # else half of the gradients were 0
            parameter.data.normal_(0, 0.3, generator=draw)
    return inner


def batch() -> Any:
    (only,) = collated(examples_of(TRAINING, tokenizer(), CONTEXT), 4096, torch.device("cpu"))
    return only


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach() for p in model.parameters() if p.requires_grad]


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_a_training_ends_with_the_same_weights(
    name: str, lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout included: blocks draw the same numbers again."""
    drops = {"resid_pdrop": 0.3, "attn_pdrop": 0.3} if name == "GPT-2" else {}
    drops = drops or {"attention_dropout": 0.3}
    rows = [[0, *tokenizer().encode(text), 0] for text in TEXTS]
    plain, private, runs = [], [], []
    once = recomputation.checkpoint
    monkeypatch.setattr(
        recomputation, "checkpoint", lambda *a, **k: runs.append(1) or once(*a, **k)
    )
    for wanted in (False, True):
        model = made(name, lora, **drops)
        fine_tune(model, rows, replace(RECIPE, checkpoint_activations=wanted), seed=3)
        plain.append(weights(model))
        assert bool(runs) == wanted
        runs.clear()
        model = made(name, lora)
        method = replace(PRIVATE, checkpoint_activations=wanted)
        method.train(model, tokenizer(), replace(TRAINING, method=method, key="same noise"))
        private.append(weights(model))
        assert bool(runs) == wanted
        runs.clear()
    for one, other in (plain, private):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert not all(
        torch.equal(a, b) for a, b in zip(plain[0], weights(made(name, lora)), strict=True)
    )


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_blocks_forget_until_the_way_back(
    name: str, lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it begins, little more than logits is in memory, also where layers are recorded."""
    rows = [[0, *tokenizer().encode(text), 0] for text in TEXTS]
    held: list[tuple[int, int]] = []
    begins = per_example_gradients.loss_and_gradient

    def noted(*given: Any) -> Any:
        held.append((plain, peak.held))
        return begins(*given)

    monkeypatch.setattr(per_example_gradients, "loss_and_gradient", noted)
    for wanted in (False, True):
        model = made(name, lora, num_hidden_layers=10, n_layer=10)
        with recomputed(model, wanted), Peak() as peak:
            loss = next_token_loss(model, rows)
            plain = peak.held
            loss.backward()  # type: ignore[no-untyped-call]
        with recomputed(model, wanted), Peak() as peak:
            clipped_gradients(model, Batch(batch().blocks[:1]), 1.0)
    assert all(few < 0.6 * many for many, few in zip(*held, strict=True))


def test_a_block_is_restored_after_an_error() -> None:
    model = made("GPT-2")
    block = model.transformer.h[0]
    before = block.forward
    with pytest.raises(ZeroDivisionError), recomputed(model, True):
        assert block.forward != before
        raise ZeroDivisionError
    assert block.forward == before and "forward" not in vars(block)
    with recomputed(model, False):
        assert block.forward == before


def test_without_blocks_it_is_refused_in_one_line() -> None:
    network = untrained(Architecture(12, 4, 4))
    with (
        pytest.raises(UsageError, match="needs a model of several blocks"),
        recomputed(network, True),
    ):
        pass
    settings = {
        "model": "lstm",
        "defense": ("dp_sgd",),
        "attack": ("membership",),
        "training": {"checkpoint_activations": True},
    }
    with pytest.raises(UsageError, match="checkpoint_activations needs a transformer") as raised:
        resolve(settings)
    assert "\n" not in str(raised.value)


def test_the_option_is_in_a_plan_if_given() -> None:
    settings: dict[str, Any] = {"defense": ("dp_sgd",), "attack": ("membership",)}
    plain = resolve(settings)
    twice = resolve({**settings, "training": {"checkpoint_activations": True}})
    assert "checkpoint_activations" not in plain.document["training"]
    assert twice.document["training"]["checkpoint_activations"] is True
    assert plain.hash != twice.hash
    methods = [
        c.plugin.trainings(p.corpus, p.model, p.training, 0)[0].method
        for p in (plain, twice)
        for c in p.defenses
        if c.name == "dp_sgd"
    ]
    assert [m.checkpoint_activations for m in methods] == [False, True]
    assert "checkpoint_activations" not in methods[0].settings
    assert "checkpoint_activations" in methods[1].settings
