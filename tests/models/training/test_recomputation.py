"""Activation checkpointing: the same losses, sums and weights, with less kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.training import Training
from audit.models.adapters import freeze, fresh
from audit.models.lstm import Architecture, untrained
from audit.models.training import per_example_gradients, recomputation
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.examples import collated, examples_of
from audit.models.training.fine_tuning import Recipe, fine_tune, next_token_loss
from audit.models.training.per_example_gradients import (
    clipped_gradients,
    loop,
    worst_difference,
)
from audit.models.training.recomputation import recomputed
from audit.plan.resolve import resolve
from tests.models.shapes import CONTEXT, OWNERS, SHAPES, TEXTS, tokenizer

NAMES = ("GPT-2", "Llama", "Llama, tied")
EXACT = 1e-5
RECIPE = Recipe(epochs=2, learning_rate=1e-2, batch_tokens=16, max_length=CONTEXT)
PRIVATE = PrivateRecipe(Noise(0.5, 1.0), 0.7, 3, 3, learning_rate=1e-2, max_length=CONTEXT)
TRAINING = Training("t", TEXTS, RECIPE, 0, OWNERS)


def made(name: str, lora: bool = False, **changes: Any) -> Any:
    """A model of two blocks."""
    shape = next(one for one in SHAPES if one.name == name)
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


def norms(name: str, lora: bool) -> float:
    """A clipping norm that some examples exceed and some do not."""
    return float(loop(made(name, lora), batch(), 1.0).norms.median())


@pytest.mark.parametrize("lora", [False, True])
def test_private_sums_are_those_of_the_loop(lora: bool) -> None:
    for name in NAMES:
        model, limit = made(name, lora), norms(name, lora)
        once = clipped_gradients(model, batch(), limit)
        with recomputed(model, True):
            twice = clipped_gradients(model, batch(), limit)
        assert worst_difference(twice, loop(model, batch(), limit)) < EXACT
        assert torch.equal(once.norms, twice.norms) and torch.equal(once.losses, twice.losses)
        assert all(torch.equal(a, b) for a, b in zip(once.sums, twice.sums, strict=True))


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


@contextmanager
def watched(model: nn.Module) -> Iterator[list[Any]]:
    """Refers weakly to what the layers inside the blocks read."""
    seen: list[Any] = []

    def note(module: Any, args: Any, output: Any) -> None:
        seen.append(StorageWeakRef(args[0].untyped_storage()))

    names = ("c_attn", "c_fc", "c_proj", "up_proj", "down_proj", "q_proj")
    layers = [m for n, m in model.named_modules() if n.split(".")[-1] in names]
    handles = [m.register_forward_hook(note) for m in layers]
    yield seen
    for handle in handles:
        handle.remove()


def held(seen: list[Any]) -> float:
    """The share of what was read that is still in memory."""
    return sum(not one.expired() for one in seen) / len(seen)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_blocks_forget_until_the_way_back(
    name: str, private: bool, lora: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for wanted in (False, True):
        model = made(name, lora)
        with recomputed(model, wanted), watched(model) as seen:
            if private:
                real = per_example_gradients.loss_and_gradient

                def between(*given: Any) -> Any:
                    found[wanted] = held(seen), len(seen)  # noqa: B023
                    return real(*given)  # noqa: B023

                with monkeypatch.context() as patch:
                    patch.setattr(per_example_gradients, "loss_and_gradient", between)
                    clipped_gradients(model, replace(batch(), more=()), 1.0)
            else:
                loss = next_token_loss(model, [[0, *tokenizer().encode(t), 0] for t in TEXTS])
                found[wanted] = held(seen), len(seen)
                loss.backward()  # type: ignore[no-untyped-call]
            assert (len(seen) > found[wanted][1]) == wanted
    assert found[True][0] == 0.0 < found[False][0]
    assert found[True][1] == found[False][1] >= 6


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
