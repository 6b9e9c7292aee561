"""Opacus through its optimizer; needs the package."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from audit.check import Claim, examine, load
from audit.check.causal_lm import texts
from audit.check.checks import exact, sampling
from audit.check.dirac import separate
from audit.check.engine import Trial
from audit.check.runs import Examiner, quiet_run
from audit.core.errors import UsageError
from audit.core.terms import Unit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("opacus")
    from audit.check.opacus import Opacus

SMALL = Claim(sampling_probability=0.1, steps=40)


@pytest.mark.parametrize("units", [separate([20.0, 1.0, 0.3, 7.0]), texts(4)], ids=lambda u: u.name)
def test_the_sum_is_that_of_the_clipped_gradients(units) -> None:
    trial = Trial(units.model(), units.records, Unit.RECORD, 2.0, 1e-6, 1.0, 2, 0, 3)
    steps = Opacus().run(trial)
    assert steps.sampling_probability == 1.0
    for row in steps.sums:
        np.testing.assert_allclose(row, units.clipped(2.0).sum(axis=0), atol=2e-5)


def test_the_realised_probability_is_of_batches() -> None:
    units = separate([1.0] * 10)
    trial = Trial(units.model(), units.records, Unit.RECORD, 2.0, 1.0, 0.3, 2, 0, 4)
    assert Opacus().run(trial).sampling_probability == pytest.approx(1 / 4)  # ⌈10/3⌉


def test_it_fails_at_the_infinite_gradient_only() -> None:
    """Opacus 1.6.0: the factor is 0, and 0·∞ is NaN."""
    examined = examine("opacus", SMALL, texts=False)
    assert {outcome.check.code for outcome in examined.failed} == {"K16"}


def test_without_poisson_sampling_it_fails_at_the_sampling() -> None:
    made = quiet_run(Examiner(Opacus(poisson_sampling=False), SMALL, 0, lambda _: None))
    assert not exact.inclusion(made).failed
    assert not sampling.rate(made, True).failed
    outcome = sampling.poisson(made, True)
    assert outcome.failed
    assert outcome.value == 0.0  # every batch holds 16


def test_without_opacus_pip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "audit.check.opacus")
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(UsageError, match="pip install opacus"):
        load("opacus")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_opacus_passes_all_else(seed: int) -> None:
    by_record, by_user = (
        {o.check.code for o in examine("opacus", Claim(unit=unit), seed).failed}
        for unit in (Unit.RECORD, Unit.USER)
    )
    assert by_record == {"K16"}
    assert by_user == {"K15", "K16"}  # it knows no users
