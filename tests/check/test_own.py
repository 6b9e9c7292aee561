"""The toolkit's own engine, through the training that the defense runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.check import Claim, examine
from audit.check.causal_lm import texts
from audit.check.checks import noise
from audit.check.dirac import separate, tied
from audit.check.engine import Trial
from audit.check.examination import one_thread
from audit.check.own import Own
from audit.check.runs import Examiner, noise_run
from audit.check.units import Units
from audit.core.terms import Unit
from audit.models.training import dp_sgd


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with one_thread():
        yield


def sums(units: Units, unit: Unit = Unit.RECORD, **more: float) -> Tensor:
    """Everybody in every step, next to no noise."""
    made = {"noise_multiplier": 1e-6, "max_norm": 2.0, "learning_rate": 0.0} | more
    everybody = np.ones(len(units), dtype=bool)
    return (
        Own()
        .run(
            Trial(
                units.model(),
                units.population(everybody, len(units)),
                unit,
                sampling_probability=1.0,
                steps=2,
                seed=0,
                physical_batch=3,
                **made,
            )
        )
        .sums
    )


@pytest.mark.parametrize(
    "units",
    [separate([20.0, 1.0, 0.3, 7.0, 2.1]), tied([20.0, 1.0]), texts(5)],
    ids=lambda u: u.name,
)
def test_the_sum_is_that_of_the_clipped_gradients(units: Units) -> None:
    due = units.clipped(2.0).sum(axis=0)
    for row in sums(units):
        np.testing.assert_allclose(row, due, atol=2e-5)


def test_a_user_is_clipped_as_one() -> None:
    units = separate([20.0, 20.0], records=3)
    one = units.clipped(2.0).sum(axis=0)
    np.testing.assert_allclose(sums(units, Unit.USER)[0], one, atol=2e-5)
    np.testing.assert_allclose(sums(units, Unit.RECORD)[0], 3 * one, atol=5e-5)


def test_a_learning_rate_moves_the_parameters() -> None:
    units = separate([1.0] * 4)
    trial = Trial(units.model(), units.records, Unit.RECORD, 2.0, 1.0, 0.5, 6, 0, 4, 0.1)
    steps = Own().run(trial)
    assert steps.weights is not None
    assert steps.weights.shape == (7, 512)
    assert steps.learning_rates is not None
    assert steps.learning_rates[0] == pytest.approx(0.1 * 6 / 7)
    assert not torch.equal(steps.weights[0], steps.weights[1])


SMALL = Claim(sampling_probability=0.1, steps=30)


@pytest.mark.slow
def test_a_short_examination_passes() -> None:
    examined = examine("own", SMALL)
    assert examined.failed == ()
    (stopped,) = (o for o in examined.outcomes if o.check.code == "K16")
    assert "NotFiniteError" in stopped.remark
    assert "texts" in {outcome.units for outcome in examined.outcomes}


def test_a_fault_in_the_own_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = dp_sgd.Noise.drawn
    monkeypatch.setattr(dp_sgd.Noise, "drawn", lambda *given: 0.9 * drawn(*given))
    made = noise_run(Examiner(Own(), SMALL, 0, lambda _: None))
    assert {outcome.check.code for outcome in noise.alone(made) if outcome.failed} == {"K7"}


@pytest.mark.full
@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.USER])
@pytest.mark.parametrize("seed", range(3))
def test_the_own_engine_passes(unit: Unit, seed: int) -> None:
    examined = examine("own", Claim(unit=unit), seed)
    assert examined.passed
