"""DP-FTRL examined: nine planted faults are found, and no right engine is called wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from audit.accounting import BandedSums, Mechanism, epsilon
from audit.accounting.banded import square_root
from audit.check import Claim, table
from audit.check.checks import groups
from audit.check.checks.claim import claim, scored
from audit.check.dirac import separate
from audit.check.engine import Steps, Trial
from audit.check.examination import Examination, of_groups, one_thread, outcomes
from audit.check.observed import Observed
from audit.check.outcome import Outcome, Status
from audit.check.own import Own
from audit.check.runs import Examiner, Runs, make, noise_run, resumed_run
from audit.check.units import Floats
from audit.core.terms import Unit
from audit.models.training import dp_sgd
from audit.models.training.correlated import Rows, group
from audit.models.training.resume import Draws
from audit.statistics.sampled_gaussian import log_ratios
from tests.check.test_faults import examiner, failed
from tests.check.toy import Fault, Training
from tests.check.toy_ftrl import PLANTED, Banded

SMALL = Claim(sampling_probability=0.1, steps=100, bands=4)
BY_USER = replace(SMALL, unit=Unit.USER)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with one_thread():
        yield


@cache
def made(training: type[Training], stated: Claim = SMALL, seed: int = 0) -> Runs:
    return make(examiner(training, stated, seed), with_texts=False)


@cache
def found(fault: Fault) -> tuple[Outcome, ...]:
    return outcomes(made(fault.training, BY_USER if "K15" in fault.found_by else SMALL))


def test_a_planted_fault_is_found_by_its_check() -> None:
    missed = {f.name: f.found_by for f in PLANTED if not set(f.found_by) <= failed(found(f))}
    assert missed == {}
    assert len(PLANTED) == 9


def test_only_the_resumed_run_shows_what_a_resume_forgets() -> None:
    for fault in PLANTED:
        if "on resume" in fault.name:
            assert failed(found(fault)) <= {"K18", "K19", "K20", "K21"}, fault.name


def test_the_figure_is_what_the_fault_makes_it() -> None:
    faults = {fault.name: fault for fault in PLANTED}
    first = square_root(4)[0]
    for name, code, figure in (
        ("group forgotten on resume", "K19", 2),
        ("participations closer than b̂", "K18", 3),
        ("k exceeded", "K20", 21),
        ("rows of Z drawn again on resume", "K21", 1.0),
        ("a column's norm above 1", "K7", first),
        ("clipped by record, claimed by user", "K15", 3.0),
        ("accounted with B/N in place of b̂·B/N", "K4", 0.8),
    ):
        (value,) = (o.value for o in found(faults[name]) if o.check.code == code)
        assert value == pytest.approx(figure, rel=0.04), name


@pytest.mark.parametrize("bands", [2, 4, 16])
def test_a_right_engine_passes(bands: int) -> None:
    read = outcomes(made(Banded, replace(BY_USER, bands=bands)))
    assert failed(read) == set()
    assert {"K18", "K19", "K20", "K21"} <= {o.check.code for o in read if o.status == "passed"}


def test_independent_noise_and_no_groups_are_another_mechanism() -> None:
    assert {"K9", "K18", "K19", "K20"} <= failed(outcomes(made(Training)))


class NeverResumed(Banded):
    def run(self) -> Steps:
        return replace(super().run(), resumed=False)


def test_an_engine_that_resumes_nothing_is_not_read_there() -> None:
    read = outcomes(made(NeverResumed))
    (over,) = (o for o in read if o.check.code == "K21")
    assert over.status == Status.NOT_READ and "resumes no training" in over.remark


@pytest.mark.calibration
def test_100_right_trainings_raise_no_alarm() -> None:
    refuted = 0
    for seed in range(100):
        runs = make(examiner(Banded, SMALL, seed), with_texts=False)
        assert failed(outcomes(runs)) == set(), seed
        refuted += claim(runs.noise).refuted
    assert refuted <= 5


# --- the claim


def test_the_claim_is_of_banded_sums() -> None:
    test = claim(made(Banded).noise)
    term = BandedSums(1.0, 25, 100, square_root(4), 0.1)
    assert test.epsilon == epsilon(Mechanism((term,), "add_or_remove"), 1e-5)
    assert (test.bands, test.area, test.refuted) == (4, None, False)
    shown = table.text(Examination("mine", SMALL, (), test))
    assert shown.startswith("mine, stated as DP-FTRL (b̂ = 4 bands) by record: σ = 1")
    assert "DP-FTRL (b̂ = 4 bands) with σ = 1, q = 0.1" in " ".join(shown.split())
    assert "area under the curve" not in shown and "DP-SGD" not in shown


class HardlyAnyNoise(Banded):
    def noise(self, step: int, batch: Any) -> Floats:
        return 0.02 * super().noise(step, batch)


def test_a_claim_without_its_noise_is_refuted() -> None:
    assert claim(noise_run(examiner(HardlyAnyNoise, SMALL))).refuted


def test_the_score_is_the_likelihood_ratio_of_all_rows() -> None:
    """Of one unit, over all groups and coins, by the Gaussian law of T dense rows."""
    steps, bands, sigma, q, c = 6, 3, 0.7, 0.4, 1.5
    units, draw = separate([10.0 * c]), np.random.default_rng(0)
    trial = Trial(
        units.model(), units.records, Unit.RECORD, c, sigma, q, steps, 0, 4,
        column=square_root(bands),
    )  # fmt: skip
    sums = c * draw.normal(size=(steps, 512))
    run = Observed(units, np.array([True]), trial, Steps(torch.tensor(sums)))
    column = [*square_root(bands), *[0.0] * steps][:steps]
    dense = np.array(
        [[column[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)]
    )
    y = dense @ run.inclusion[:, 0]
    ratio = 0.0
    for first in range(bands):
        own = list(range(first, steps, bands))
        for coins in np.ndindex(*[2] * len(own)):
            x = np.zeros(steps)
            x[own] = coins
            weight = q ** sum(coins) * (1 - q) ** (len(own) - sum(coins)) / bands
            mean = dense @ x
            ratio += weight * np.exp((mean @ y - mean @ mean / 2) / run.deviations[0] ** 2)
    assert scored(run) == pytest.approx([np.log(ratio)], rel=1e-9)
    plain = replace(run, trial=replace(trial, column=(1.0,)))
    assert np.array_equal(scored(plain), log_ratios(plain.inclusion, plain.deviations, q))


# --- the toolkit's own engine


def own(stated: Claim = SMALL) -> Observed:
    units = separate([10.0 * stated.max_norm] * 24)
    return resumed_run(Examiner(Own(), stated, 0, lambda _: None), units)


def of_own(stated: Claim = SMALL) -> set[str]:
    run = own(stated)
    return failed((*of_groups(run, run), groups.resumed(run)))


def test_the_own_engine_resumes_as_if_it_had_never_stopped() -> None:
    run = own()
    assert run.steps.resumed and failed((*of_groups(run, run), groups.resumed(run))) == set()
    trial = replace(run.trial, model=run.units.model(), resume_after=0)
    assert np.array_equal(run.sums, Observed(run.units, run.present, trial, Own().run(trial)).sums)


def test_faults_of_the_own_engine_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(name: str, key: int, count: int) -> int:
        calls.append(name)
        return group(f"{name} {len(calls) > 24}", key, count)

    drawn = Rows.drawn

    def not_inverted(self: Rows, place: int, like: torch.Tensor) -> torch.Tensor:
        z = self._independent(like)
        past = self._past.get(place, [])
        self._past[place] = [z, *past][: len(self._others)]
        rows = zip((self._first, *self._others), [z, *past], strict=False)
        return torch.as_tensor(sum(band * row for band, row in rows))

    for owner, name, fault, due in (
        (Rows, "restore", lambda self, state: None, {"K21"}),
        (Draws, "restore", lambda self, state: None, {"K21"}),
        (Rows, "drawn", not_inverted, {"K21"}),
        (Rows, "drawn", lambda *given: 0.8 * drawn(*given), {"K21"}),
        (dp_sgd, "group", counted, {"K19"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fault)
            assert due <= of_own(), (owner, name)


@pytest.mark.full
@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.USER])
@pytest.mark.parametrize("bands", [2, 8])
def test_the_own_engine_passes(unit: Unit, bands: int) -> None:
    runs = make(Examiner(Own(), Claim(unit=unit, bands=bands), 0, lambda _: None), with_texts=True)
    assert failed(outcomes(runs)) == set()
    assert not claim(runs.noise).refuted


def test_counts_and_distances_are_read_off_the_batches() -> None:
    """Two units of b̂ = 2: one in steps 0, 2, 4; one in steps 0, 3, 4."""
    seen = np.zeros((5, 2))
    seen[[0, 2, 4], 0] = 1.0
    seen[[0, 3, 4], 1] = 1.0
    units = separate([15.0, 15.0])
    trial = Trial(
        units.model(), units.records, Unit.RECORD, 1.5, 0.005, 0.5, 5, 0, 4,
        column=square_root(2),
    )  # fmt: skip
    run = Observed(
        units, np.ones(2, dtype=bool), trial, Steps(torch.tensor(seen @ units.clipped(1.5)))
    )
    values = [check([run]).value for check in (groups.distance, groups.groups, groups.count)]
    assert values == [1, 2, 3]
    assert [check([run]).failed for check in (groups.distance, groups.groups, groups.count)] == [
        True, True, False,
    ]  # fmt: skip
    assert run.rounds.tolist() == [[1, 1], [1, 1]]
