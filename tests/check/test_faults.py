"""The auditor audited: planted faults are found by the check meant for them, and no right engine
is called wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from audit.check.causal_lm import CausalLM, texts
from audit.check.checks.claim import claim
from audit.check.engine import Steps
from audit.check.examination import of_texts, outcomes
from audit.check.outcome import Outcome
from audit.check.runs import Examiner, make, text_runs
from audit.check.stated import Claim
from audit.check.units import Floats
from audit.core.terms import Unit
from tests.check.toy import MORE, PLANTED, Fault, ShuffledEpochs, Toy, Training

SMALL = Claim(sampling_probability=0.1, steps=100)
BY_USER = replace(SMALL, unit=Unit.USER)


def examiner(training: type[Training], stated: Claim, seed: int = 0) -> Examiner:
    return Examiner(Toy(training), stated, seed, lambda _: None)


@cache
def read(training: type[Training], seed: int = 0, stated: Claim = SMALL) -> tuple[Outcome, ...]:
    return outcomes(make(examiner(training, stated, seed), with_texts=False))


def failed(read: tuple[Outcome, ...]) -> set[str]:
    return {outcome.check.code for outcome in read if outcome.failed}


def test_a_planted_fault_is_found_by_its_check() -> None:
    missed = {f.name: f.found_by for f in (*PLANTED, *MORE) if not set(f.found_by) <= seen(f)}
    assert missed == {}


def seen(fault: Fault) -> set[str]:
    return failed(found(fault))


def found(fault: Fault) -> tuple[Outcome, ...]:
    stated = BY_USER if "user" in fault.name else SMALL
    return read(fault.training, stated=stated)


def test_clipping_by_record_is_no_fault_there() -> None:
    (fault,) = (fault for fault in PLANTED if "K15" in fault.found_by)
    assert failed(read(fault.training)) <= {"K16"}


def test_the_figure_is_what_the_fault_makes_it() -> None:
    faults = {fault.name: fault for fault in PLANTED}
    for name, code, figure in (
        ("noise 10 % low", "K7", 0.9),
        ("noise forgets C", "K7", 1 / 1.5),
        ("clipping ignored", "K2", 10.0),
        ("means of microbatches clipped", "K2", 4.0),
        ("clipped by tensor", "K2", 2**0.5),
        ("tied norm without cross term", "K17", 2**0.5),
        ("clipped by record, claimed by user", "K15", 3.0),
        ("correlated noise accounted as independent", "K9", -0.1 / 1.01),
        ("q half as large again", "K4", 0.3),
        ("uniform noise", "K8", 1.8),
    ):
        (value,) = (outcome.value for outcome in found(faults[name]) if outcome.check.code == code)
        assert value == pytest.approx(figure, rel=0.04), name


class ShortNorms(Training):
    """Norms of a language model's gradients are taken for a fifth too small."""

    def clip(self, gradients: Floats) -> Floats:
        largest = 1.25 * self.trial.max_norm if isinstance(self.trial.model, CausalLM) else 0.0
        norms = np.linalg.norm(gradients, axis=1)
        limit = largest or self.trial.max_norm
        return (
            super().clip(gradients)
            * np.clip(norms, self.trial.max_norm, limit)[:, None]
            / (self.trial.max_norm)
        )


class ShuffledTensors(Training):
    """The noise of a language model's tensors is one draw, cut to size."""

    def noise(self, step: int, batch: np.ndarray) -> Floats:
        if not isinstance(self.trial.model, CausalLM):
            return super().noise(step, batch)
        drawn = self.deviation * self.random.standard_normal(max(self.sizes))
        return np.concatenate([drawn[:size] for size in self.sizes])


def test_texts_show_what_vectors_do_not() -> None:
    right, short, shuffled = (
        failed(of_texts(*text_runs(examiner(training, SMALL, 0), texts(32))))
        for training in (Training, ShortNorms, ShuffledTensors)
    )
    assert right == set()
    assert short == {"K1", "K2"}
    assert "K10" in shuffled


def test_a_right_engine_passes() -> None:
    assert [failed(read(Training, seed)) for seed in range(3)] == [set()] * 3
    read_by_user = read(Training, stated=BY_USER)
    assert failed(read_by_user) == set()
    assert "K15" in {outcome.check.code for outcome in read_by_user}


class Bfloat16(Training):
    """Sums are rounded to eight bits, unbiased as rounding is."""

    def run(self) -> Steps:
        steps = super().run()
        return replace(steps, sums=steps.sums.bfloat16().float(), tolerance=0.01)


def test_coarse_arithmetic_is_no_fault() -> None:
    assert failed(read(Bfloat16)) <= {"K13"}


@pytest.mark.calibration
def test_100_right_trainings_raise_no_alarm() -> None:
    least, refuted = 1.0, 0
    for seed in range(100):
        made = make(examiner(Training, Claim(), seed), with_texts=True)
        read_of_it = outcomes(made)
        assert failed(read_of_it) == set(), seed
        least = min(least, *(outcome.p for outcome in read_of_it if outcome.p is not None))
        refuted += claim(made.noise).refuted
    assert least < 1e-2  # p-values that are never small would find nothing
    assert refuted <= 5


class Automatic(Training):
    """Gradients of any size are scaled to C, and the engine tells which units it sampled."""

    def clip(self, gradients: Floats) -> Floats:
        norms = np.linalg.norm(gradients, axis=1)
        scaled = gradients * (self.trial.max_norm / np.maximum(norms, 1e-30))[:, None]
        return np.where(np.isfinite(norms)[:, None], scaled, 0.0)

    def run(self) -> Steps:
        self.told: list[Floats] = []
        return replace(super().run(), included=np.array(self.told))

    def released(self, step: int, batch: Any) -> Iterator[Floats]:
        self.told.append(np.isin(np.arange(len(self.units)), batch))
        return super().released(step, batch)


class AutomaticInEpochs(Automatic, ShuffledEpochs):
    """The same in shuffled epochs."""


def test_told_batches_fail_by_clipping_alone() -> None:
    assert failed(read(Automatic)) == {"K1"}
    assert failed(read(AutomaticInEpochs)) == {"K1", "K5"}
