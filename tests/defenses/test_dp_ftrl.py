"""DP-FTRL: its matrix against dense ones, its ε against the mechanism simulated, its choices."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from audit.accounting import Mechanism, banded, claimed_mechanism, described, recompute
from audit.accounting import epsilon as accounted
from audit.core.errors import UsageError
from audit.core.terms import Relation
from audit.models.training.dp_sgd import PrivateRecipe
from defenses.dp_ftrl import DPFTRL
from defenses.dp_sgd import DPSGD
from tests.defenses.test_private import GPT2, RECIPE, corpus, method_of, promise

STEPS = 12


def dense(bands: int, steps: int = STEPS) -> np.ndarray:
    column = banded.square_root(bands)
    return toeplitz([*column, *[0.0] * steps][:steps], np.zeros(steps))


def test_all_bands_are_the_square_root_of_the_prefix_sums() -> None:
    c = dense(STEPS)
    assert np.allclose(c @ c / c[0, 0] ** 2, np.tril(np.ones((STEPS, STEPS))), atol=1e-12)


@pytest.mark.parametrize("bands", [1, 2, 5, STEPS])
def test_inverse_and_error_are_those_of_dense_matrices(bands: int) -> None:
    c, column = dense(bands), banded.square_root(bands)
    inverse, prefixes = np.linalg.inv(c), np.tril(np.ones((STEPS, STEPS)))
    assert np.allclose(banded.inverse(column, STEPS), inverse[:, 0], atol=1e-12)
    error = np.linalg.norm(prefixes @ inverse) / math.sqrt(STEPS)
    assert banded.error(column, STEPS) == pytest.approx(error, rel=1e-12)
    assert math.hypot(*column) == pytest.approx(1.0) and list(column) == sorted(column)[::-1]


@pytest.mark.parametrize("bands", [1, 2, 3, 5])
def test_what_a_unit_adds_has_at_most_the_norm_of_its_steps(bands: int) -> None:
    """Over all groups, all choices of steps, and clipped gradients of any direction."""
    c, draw = dense(bands), np.random.default_rng(0)
    most = -(-STEPS // bands)
    reached = 0.0
    for first in range(bands):
        own = range(first, STEPS, bands)
        assert len(own) <= most
        for taken in itertools.product((0.0, 1.0), repeat=len(own)):
            x = np.zeros((STEPS, 3))
            directions = draw.normal(size=(len(own), 3))
            unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
            x[list(own)] = np.array(taken)[:, None] * unit
            norm = float(np.linalg.norm(c @ x))
            assert norm <= math.sqrt(sum(taken)) + 1e-12
            reached = max(reached, norm / math.sqrt(most))
    assert reached > 0.9  # columns that the end cuts are shorter


@pytest.mark.parametrize(("bands", "q", "sigma"), [(2, 0.5, 1.0), (3, 0.7, 0.8), (3, 1.0, 1.5)])
def test_epsilon_is_that_of_the_mechanism_simulated(bands: int, q: float, sigma: float) -> None:
    """The first group's unit, whose gradients all point one way: what it does to T rows of output,
    by the likelihood over all choices of its steps. What is accounted is never below δ at ε = 0.5,
    1 and 2, but for 4 errors, and no more than half above it: the last columns are cut."""
    steps, n = 6, 200_000
    c, draw = dense(bands, steps), np.random.default_rng(1)
    own = list(range(0, steps, bands))
    patterns = np.array(list(itertools.product((0, 1), repeat=len(own))))
    shifts = np.zeros((len(patterns), steps))
    shifts[:, own] = patterns
    centres = shifts @ c.T
    k = patterns.sum(axis=1)
    weights = q**k * (1.0 - q) ** (len(own) - k)
    picked = draw.choice(len(patterns), size=n, p=weights)
    y = centres[picked] + sigma * draw.normal(size=(n, steps))
    exponents = (y @ centres.T - 0.5 * (centres**2).sum(axis=1)) / sigma**2
    ratios = np.exp(exponents) @ weights
    recipe: Any = method_of(DPFTRL(epsilon=None, noise_multiplier=sigma, bands=bands, batch=1))
    (term,) = recipe.releases
    own_term = replace(term, count=len(own), steps=steps, sampling_probability=q)
    stated = partial(accounted, Mechanism((own_term,), Relation.ADD_OR_REMOVE))
    for epsilon in (0.5, 1.0, 2.0):
        losses = np.maximum(0.0, 1.0 - math.exp(epsilon) / ratios)
        seen, error = losses.mean(), losses.std() / math.sqrt(n)
        assert stated(seen - 4 * error) >= epsilon >= stated(1.5 * seen)


def test_one_band_is_dp_sgd() -> None:
    mine, theirs = (method_of(one) for one in (DPFTRL(bands=1, batch=5), DPSGD(batch=5)))
    assert isinstance(mine, PrivateRecipe) and mine == theirs
    one = promise(DPFTRL(bands=1, batch=5))
    assert "with one band, which is DP-SGD" in one.theorem
    assert "C⁻¹Z" not in " ".join(one.conditions)


@pytest.mark.parametrize("source", ["seed", "system"])
def test_a_user_s_steps_are_what_epsilon_is_of(source: str) -> None:
    defense = DPFTRL(bands=4, batch=5, epochs=3, clip=0.3, noise=source)
    guarantee, method = promise(defense), method_of(defense)
    assert (method.steps, method.sampling_probability, len(method.bands)) == (24, 0.5, 4)
    assert method.releases[0].count == 6 and method.passes == pytest.approx(3.0)
    assert (method.noise.max_norm, method.noise.source) == (0.3, source)
    assert guarantee.epsilon == pytest.approx(8.0, rel=2e-3) and guarantee.unit == "user"
    assert recompute(guarantee.accounting) == pytest.approx(guarantee.epsilon)
    said = " ".join(guarantee.conditions)
    assert "b̂ = 4 bands" in said and "keyed hash of the id alone" in said
    assert "24 sums with noise C⁻¹Z" in said and "at most 6 sums, at least 4 steps apart" in said
    assert "q = 0.5 (0.125 of all units)" in said
    assert ("SHAKE-256" in said) == (source == "system") and "protected together" in said
    assert "DP-SGD" not in guarantee.theorem + said
    claimed = claimed_mechanism(guarantee, "user", "add_or_remove")
    assert not isinstance(claimed, str)
    assert described(claimed).startswith("DP-FTRL: banded noise, b̂ = 4, σ = ")
    assert described(claimed).endswith("in 4 groups with q = 0.5, T = 24, 6 participations")
    (training,) = defense.trainings(corpus(), GPT2, RECIPE, 0)
    assert set(training.owners) == {f"u{i}" for i in range(40)}


def test_bands_are_chosen_by_the_error_at_this_epsilon() -> None:
    """None of the other powers of two has less; more than N/B or T are refused."""
    chosen = method_of(DPFTRL(batch=2, optimizer="sgd"))
    errors = {}
    for bands in (1, 2, 4, 8, 16):
        one = method_of(DPFTRL(batch=2, bands=bands))
        errors[bands] = one.noise.multiplier * banded.error(one.bands, one.steps)
    assert min(errors, key=errors.__getitem__) == len(chosen.bands) > 1
    assert errors[len(chosen.bands)] < 0.9 * errors[1]
    assert len(method_of(DPFTRL(batch=2)).bands) == 2 < len(chosen.bands)  # AdamW
    for bands, epochs, most in ((21, 15.0, 20), (3, 0.1, 2)):
        with pytest.raises(UsageError, match=f"bands is {bands}, but 40 users .* allow {most};"):
            method_of(DPFTRL(batch=2, bands=bands, epochs=epochs))
    assert len(method_of(DPFTRL(batch=2, epsilon=None, noise_multiplier=1.0)).bands) == 1
    uneven = method_of(DPFTRL(batch=3, bands=13))  # 40 users in batches of 3
    assert uneven.sampling_probability == pytest.approx(39 / 40)
    assert len(method_of(DPFTRL(batch=1, optimizer="sgd"), texts=corpus(200, 1)).bands) <= 16


def test_bands_that_do_not_reach_epsilon_are_not_chosen() -> None:
    tiny = DPFTRL(batch=2, epsilon=3e-4)
    assert len(method_of(tiny, texts=corpus(400, 1)).bands) == 1


def test_no_coin_moves_groups_or_sizes() -> None:
    few, many = (
        DPFTRL(batch=2).trainings(corpus(users=40, records=n), GPT2, RECIPE, 0)[0] for n in (1, 2)
    )
    assert few.method == many.method and few.seed == many.seed
