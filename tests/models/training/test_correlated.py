"""Correlated noise is C⁻¹Z; a unit takes part in every b̂-th step, by a hash of its own name."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from torch import Tensor

from audit.accounting.banded import square_root
from audit.models.training.correlated import PLAIN, Rows, group
from audit.models.training.dp_sgd import Noise, Units
from audit.models.training.fine_tuning import warmed
from tests.models.alike import weights
from tests.models.training.test_dp_sgd import RECIPE, people, tiny, trained

STEPS, BANDS = 9, square_root(4)
SHAPES = (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(5, dtype=torch.float64))


def matrix(bands: tuple[float, ...], steps: int = STEPS) -> np.ndarray:
    return toeplitz([*bands, *[0.0] * steps][:steps], np.zeros(steps))


def rows_of(rows: Rows, steps: int) -> list[list[Tensor]]:
    return [[rows.drawn(i, like).clone() for i, like in enumerate(SHAPES)] for _ in range(steps)]


def source(seed: int = 0) -> tuple[Any, list[Tensor]]:
    """Make a source of independent rows, which notes what it gave."""
    noise, stream, given = Noise(1.5, 0.5), np.random.default_rng(seed), []

    def independent(like: Tensor) -> Tensor:
        given.append(noise.drawn(like, stream))
        return given[-1].clone()

    return independent, given


@pytest.mark.parametrize("bands", [PLAIN, square_root(2), BANDS, square_root(STEPS + 3)])
def test_rows_are_those_of_the_inverse(bands: tuple[float, ...]) -> None:
    independent, given = source()
    seen = rows_of(Rows(bands, independent), STEPS)
    for i in range(len(SHAPES)):
        z = torch.stack(given[i :: len(SHAPES)]).flatten(1).numpy()
        expected = np.linalg.solve(matrix(bands), z)
        assert np.allclose(torch.stack([one[i] for one in seen]).flatten(1), expected, atol=1e-12)


def test_rows_go_on_from_a_checkpoint_which_holds_as_many_as_are_needed() -> None:
    independent, _ = source(1)
    long = square_root(13)  # whose tenth row is not its second
    whole = Rows(long, independent)
    rows_of(whole, 15)
    state = whole.state()
    assert set(state) == {f"{i}.{age}" for i in range(2) for age in range(12)}
    held = {name: value.clone() for name, value in state.items()}
    again, empty = (Rows(long, source(2)[0]) for _ in range(2))
    again.restore(held)
    other = Rows(long, source(2)[0])
    other._past = {i: list(rows) for i, rows in whole._past.items()}
    for one, two, zeroed in zip(
        rows_of(again, 3), rows_of(other, 3), rows_of(empty, 3), strict=True
    ):
        assert all(map(torch.equal, one, two)) and not torch.equal(one[0], zeroed[0])
    assert Rows(PLAIN, independent).state() == {}


def test_a_group_depends_on_the_name_and_the_key_alone() -> None:
    names = [f"user {i}" for i in range(4000)]
    groups = [group(name, 7, 8) for name in names]
    assert all(400 < count < 600 for count in Counter(groups).values()) and len({*groups}) == 8
    moved_by_key = sum(a != group(name, 8, 8) for a, name in zip(groups, names, strict=True))
    assert 3300 < moved_by_key < 3700  # 7 of 8 move


@pytest.mark.parametrize(
    ("bands", "dtype"), [(PLAIN, torch.float64), (BANDS, torch.float32), (BANDS, torch.float64)]
)
def test_without_anybody_a_training_adds_the_noise_of_its_column(
    bands: tuple[float, ...], dtype: torch.dtype
) -> None:
    """C times what the steps released is the stream's own draws, of deviation σ·clip."""
    recipe = replace(RECIPE, bands=bands, noise=Noise(1.3, 0.7), learning_rate=1e-2)
    training = replace(people(12), texts=(), owners=())
    model = tiny().to(dtype)
    before, released = weights(model), []
    for steps in range(1, STEPS + 1):  # each as its first steps are: plain SGD, rates known
        shorter = replace(recipe, steps=steps)
        after = weights(trained(model, shorter, replace(training, key="one stream")))
        released.append((before - after, [1e-2 * warmed(i, steps, 0.0) for i in range(steps)]))
    rows: list[torch.Tensor] = []
    for total, rates in released:
        known = sum((rate * row for rate, row in zip(rates, rows, strict=False)), 0 * total)
        rows.append((total - known) / rates[-1])
    expected = recipe.sampling_probability * recipe.population / len(bands)
    noise = expected * torch.stack(rows).double().numpy()
    z = matrix(bands) @ noise
    stream = recipe.noise.stream(replace(training, key="one stream"), "noise")
    shapes = [p for p in model.parameters() if p.requires_grad]
    drawn_z = [
        torch.cat([recipe.noise.drawn(p, stream).flatten() for p in shapes]) for _ in range(STEPS)
    ]
    near = 2e-2 if dtype == torch.float32 else 1e-9
    assert np.allclose(z, torch.stack(drawn_z).double().numpy(), atol=near)
    assert z.std() == pytest.approx(1.3 * 0.7, rel=0.02)


def test_a_checkpoint_of_another_device_is_taken_up() -> None:
    """On a machine without a GPU: tensors that compute nothing tell of their device alone."""
    held = Rows(square_root(2), lambda like: torch.zeros(2, device="meta"))
    held.restore({"0.0": torch.ones(2)})
    assert held.drawn(0, torch.zeros(2)).device.type == "meta"


def test_what_no_epsilon_is_known_of_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 1"):
        Rows((1.0, 0.1), lambda like: like)
    with pytest.raises(ValueError, match="no ε is known with several bands"):
        replace(RECIPE, bands=square_root(2), units=Units(10, 2))


def test_a_step_is_one_of_dp_sgd_on_its_group_alone() -> None:
    """Its sum is divided by the batch that is expected of the group."""
    silent = replace(RECIPE, noise=Noise(0.0, 12.5), sampling_probability=1.0, population=24)
    both = replace(silent, bands=(1.0, 0.0), steps=2)
    training, model = people(24), tiny()
    whole = trained(model, both, training)
    for step in range(2):
        mine = [group(owner, training.seed, 2) == step for owner in training.owners]
        alone = replace(
            training,
            texts=tuple(itertools.compress(training.texts, mine)),
            owners=tuple(itertools.compress(training.owners, mine)),
        )
        rate = both.learning_rate * warmed(step, 2, 0.0) / warmed(0, 1, 0.0)
        model = trained(model, replace(silent, steps=1, learning_rate=rate, population=12), alone)
    assert torch.allclose(weights(whole), weights(model), atol=1e-6)
    assert not torch.allclose(weights(whole), weights(tiny()), atol=1e-2)
    assert both.passes == 1.0 and both.releases[0].count == 1
