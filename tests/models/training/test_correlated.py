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

from audit.models.training import dp_sgd
from audit.models.training.correlated import PLAIN, Rows, group
from audit.models.training.dp_sgd import Noise
from audit.models.training.examples import Example, examples_of
from audit.models.training.fine_tuning import warmed
from defenses.training.banded import square_root
from tests.models.training.test_dp_sgd import RECIPE, Letters, moved, people, tiny, trained, weights

STEPS, BANDS = 9, square_root(4)
SHAPES = (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(5, dtype=torch.float64))


def matrix(bands: tuple[float, ...], steps: int = STEPS) -> np.ndarray:
    return toeplitz([*bands, *[0.0] * steps][:steps], np.zeros(steps))


def drawn(rows: Rows, steps: int) -> list[list[Tensor]]:
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
    seen = drawn(Rows(bands, independent), STEPS)
    for i in range(len(SHAPES)):
        z = torch.stack(given[i :: len(SHAPES)]).flatten(1).numpy()
        expected = np.linalg.solve(matrix(bands), z)
        assert np.allclose(torch.stack([one[i] for one in seen]).flatten(1), expected, atol=1e-12)


def test_rows_go_on_from_a_checkpoint_which_holds_as_many_as_are_needed() -> None:
    independent, _ = source(1)
    whole = Rows(BANDS, independent)
    drawn(whole, 5)
    state = whole.state()
    assert set(state) == {f"{i}.{age}" for i in range(2) for age in range(len(BANDS) - 1)}
    held = {name: value.clone() for name, value in state.items()}
    again, empty = (Rows(BANDS, source(2)[0]) for _ in range(2))
    again.restore(held)
    other = Rows(BANDS, source(2)[0])
    other.restore(dict(reversed(held.items())))
    for one, two, zeroed in zip(drawn(again, 3), drawn(other, 3), drawn(empty, 3), strict=True):
        assert all(map(torch.equal, one, two)) and not torch.equal(one[0], zeroed[0])
    assert Rows(PLAIN, independent).state() == {}


def test_a_group_depends_on_the_name_and_the_key_alone() -> None:
    names = [f"user {i}" for i in range(4000)]
    groups = [group(name, 7, 8) for name in names]
    assert all(400 < count < 600 for count in Counter(groups).values()) and len({*groups}) == 8
    moved_by_key = sum(a != group(name, 8, 8) for a, name in zip(groups, names, strict=True))
    assert 3300 < moved_by_key < 3700  # 7 of 8 move


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[Example]]:
    """Whom each step read."""
    seen: list[list[Example]] = []
    real = dp_sgd.poisson

    def noted(*given: Any) -> list[Example]:
        seen.append(real(*given))
        return seen[-1]

    monkeypatch.setattr(dp_sgd, "poisson", noted)
    return seen


def test_a_step_reads_its_group_and_everybody_is_in_one(read: list[list[Example]]) -> None:
    recipe = replace(RECIPE, bands=square_root(3), sampling_probability=1.0, steps=8)
    training = people(24)
    moved(tiny(), recipe, training)
    examples = examples_of(training, Letters(), recipe.max_length)
    names = list(dict.fromkeys(training.owners))
    for step, seen in enumerate(read):
        own = [
            example
            for name, example in zip(names, examples, strict=True)
            if group(name, training.seed, 3) == step % 3
        ]
        assert [one.rows for one in seen] == [one.rows for one in own] and own
    assert sum(map(len, read[:3])) == len(examples)
    assert recipe.passes == pytest.approx(8 / 3) and recipe.releases[0].count == 3


def test_nobody_moves_when_another_leaves(read: list[list[Example]]) -> None:
    """Of records, whose names are their places, the text decides."""
    recipe = replace(RECIPE, bands=square_root(3), sampling_probability=1.0, steps=3, by_text=True)
    training = people(12)
    places = tuple(f"{i}" for i in range(len(training.texts)))
    whole = replace(training, owners=places)
    fewer = replace(whole, texts=whole.texts[1:], owners=places[:-1])
    moved(tiny(), recipe, whole)
    before = [[one.rows for one in step] for step in read]
    read.clear()
    moved(tiny(), recipe, fewer)
    after = [[one.rows for one in step] for step in read]
    pairs = list(zip(before, after, strict=True))
    assert all(row in a for a, b in pairs for row in b)
    assert sum(len(a) - len(b) for a, b in pairs) == 1


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
