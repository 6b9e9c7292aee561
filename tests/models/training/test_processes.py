"""Several processes train as one does: each unit is clipped once, lots and noise are drawn once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.checkpoint import Checkpoint
from audit.core.processes import Processes
from audit.core.training import NotFiniteError, Training
from audit.models.training.dp_sgd import Noise, NoisySum, PrivateRecipe
from audit.models.training.examples import collated, examples_of
from tests.models.training import test_selective as selective
from tests.models.training.in_threads import in_threads
from tests.models.training.test_dp_sgd import RECIPE, Letters, people, tiny, weights

STEPS = 20
SGD = replace(RECIPE, steps=STEPS, learning_rate=0.05)
ADAMW = replace(SGD, optimizer="adamw", learning_rate=1e-3)
BANDED = replace(SGD, bands=(0.8, 0.6), sampling_probability=0.9)


class Kept(Checkpoint):
    """The state after so many steps, kept in memory."""

    def __init__(self, after: int = 0, state: Mapping[str, Any] | None = None) -> None:
        self.after, self.state, self.steps = after, state, 0

    def load(self) -> Mapping[str, Any] | None:
        return self.state

    def due(self) -> bool:
        self.steps += 1
        return self.steps == self.after

    def save(self, state: Mapping[str, Any]) -> None:
        self.state = copy.deepcopy(dict(state))


def ended(
    number: int, recipe: PrivateRecipe, dtype: torch.dtype, checkpoint: Kept | None = None
) -> torch.Tensor:
    """The weights after a training by so many processes, which must agree to the bit."""

    def one(processes: Processes) -> torch.Tensor:
        model = models[processes.rank]
        training = replace(people(), processes=processes)
        if checkpoint is not None:
            own = checkpoint if processes.rank == 0 else of_others
            training = replace(training, checkpoint=own)
        recipe.train(model, Letters(), training)
        return weights(model)

    of_others = Kept(after=checkpoint.after if checkpoint else 0)
    models = [tiny().to(dtype) for _ in range(number)]
    first, *others = in_threads(number, one)
    assert all(torch.equal(first, other) for other in others)
    assert of_others.state is None  # the first process writes, and reads for all
    return first


@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("recipe", [SGD, BANDED], ids=["one band", "two bands"])
def test_sgd_in_float64_equals_one_process(recipe: PrivateRecipe, number: int) -> None:
    alone, together = (ended(count, recipe, torch.float64) for count in (1, number))
    assert (alone - together).abs().max() < 1e-10
    assert (alone - weights(tiny())).norm() > 0.1


def test_adamw_in_float32_equals_one_process() -> None:
    alone, together = (ended(count, ADAMW, torch.float32) for count in (1, 3))
    assert (alone - together).norm() < 1e-3 * (alone - weights(tiny())).norm()


@pytest.mark.parametrize("recipe", [SGD, BANDED], ids=["one band", "two bands"])
def test_another_number_of_processes_goes_on(recipe: PrivateRecipe) -> None:
    kept = Kept(after=7)
    whole = ended(2, recipe, torch.float64, kept)
    assert kept.state is not None and kept.state["steps"] == 7
    again = ended(3, recipe, torch.float64, Kept(state=kept.state))
    assert (whole - again).abs().max() < 1e-10


def test_lots_and_noise_are_drawn_by_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Noise.stream

    def of_the_first(self: Noise, training: Training, purpose: str) -> Any:
        return drawn(self, training, purpose) if training.processes.rank == 0 else None

    monkeypatch.setattr(Noise, "stream", of_the_first)
    for source in ("seed", "system"):
        ended(3, replace(SGD, noise=replace(SGD.noise, source=source)), torch.float64)


def test_a_users_records_move_the_sum_by_at_most_the_clip() -> None:
    recipe, training = replace(RECIPE, physical_tokens=12), people()
    owners, mine = training.owners, training.owners[0]
    assert owners.count(mine) == 2
    clip, kept = 5.0, [i for i, owner in enumerate(owners) if owner != mine]
    texts, others = (tuple(of[i] for i in kept) for of in (training.texts, owners))
    without = replace(training, texts=texts, owners=others)
    models = [tiny().double() for _ in range(3)]

    def released(processes: Processes, of: Training) -> torch.Tensor:
        model = models[processes.rank]
        examples = processes.share(examples_of(of, Letters(), recipe.max_length))
        batches = collated(examples, recipe.physical_tokens, model.device)
        stream = np.random.default_rng(0)
        NoisySum(model, Noise(0.0, clip), stream, processes=processes).into_gradients(batches, 1.0)
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    one, two = (in_threads(3, partial(released, of=of))[0] for of in (training, without))
    assert 0.99 * clip < float((one - two).norm()) <= clip * (1 + 1e-9)  # its norm is above


def test_a_loss_that_is_not_finite_ends_all_processes() -> None:
    def one(processes: Processes) -> str:
        model = tiny()
        if processes.rank == 1:
            with torch.no_grad():
                model.transformer.wte.weight.fill_(float("nan"))
        with pytest.raises(NotFiniteError) as raised:
            SGD.train(model, Letters(), replace(people(), processes=processes))
        return str(raised.value)

    assert len(set(in_threads(3, one))) == 1


def test_selective_steps_equal_those_of_one_process() -> None:
    """Public steps are made by the first process, and so is the noise on hidden states."""
    public = replace(selective.NO_PUBLIC_STEP, epochs=2)
    recipe = replace(selective.INDEPENDENT, hidden="noise", steps=6, public=public)

    def one(processes: Processes) -> torch.Tensor:
        model = models[processes.rank]
        training = replace(selective.training(recipe), processes=processes)
        recipe.train(model, selective.Signs(), training)
        return weights(model)

    ended_with = []
    for number in (1, 3):
        models = [selective.network() for _ in range(number)]
        first, *others = in_threads(number, one)
        assert all(torch.equal(first, other) for other in others)
        ended_with.append(first)
    alone, together = ended_with
    assert (alone - together).norm() < 1e-3 * (alone - weights(selective.network())).norm()
