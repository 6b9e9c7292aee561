"""The trainings of an examination."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.accounting.banded import square_root
from audit.check.causal_lm import texts
from audit.check.dirac import separate, tied
from audit.check.engine import Engine, Trial
from audit.check.observed import EngineStoppedError, Observed, observe
from audit.check.stated import Claim
from audit.check.units import Units
from audit.core.randomness import derived_seed, stream
from audit.core.terms import Unit

QUIET = 0.005  # noise multiplier of the runs in which contributions are read
PHYSICAL = 4  # records in memory at once, so that batches are made of several parts
FAR, NEAR = 10.0, 0.5  # norms of gradients over C: one is clipped, the other is not
_UNITS, _PRESENT, _FEW, _TEXTS, _TEXTS_PRESENT = 96, 80, 16, 32, 24
_BATCH = 10  # units in an expected batch of the noise run
_RATE = 0.1  # learning rate, where there is one
_LONG = 20  # steps of a short run, in each group


@dataclass(frozen=True)
class Runs:
    """All runs of one engine.

    quiet: little noise, 80 of 96 units present; what each of them adds can be read.
    few: two units present, so that many batches hold none. again: the same with another seed.
    noise: as stated; fair coins chose the units. update: with a learning rate.
    tied: one weight used twice. infinite: one gradient is infinite; a text says why the engine
        stopped, where it did. users: three records each; None where the unit is the record.
    texts: (quiet, noise) of a causal language model; None where they are left out.
    resumed: stopped in the middle and resumed; with several bands everybody of a group is in each
        of its steps.
    """

    quiet: Observed
    few: Observed
    again: Observed
    noise: Observed
    update: Observed
    tied: Observed
    infinite: Observed | str
    users: Observed | None
    texts: tuple[Observed, Observed] | None
    resumed: Observed


@dataclass(frozen=True)
class Examiner:
    """Asks an engine for trainings of the stated clipping norm and unit.

    seed: of the choice of units, and of the seeds that the engine is given.
    report: is called with the name of each run before it begins.
    """

    engine: Engine
    claim: Claim
    seed: int
    report: Callable[[str], None]

    def ask(
        self,
        name: str,
        units: Units,
        present: NDArray[np.bool_],
        *,
        population: int = 0,
        noise_multiplier: float = QUIET,
        sampling_probability: float = 0.2,
        steps: int = 0,
        each: int = 150,
        learning_rate: float = 0.0,
        max_norm: float = 0.0,
        finite: bool = True,
        resume_after: int = 0,
    ) -> Observed:
        """Make one run.

        population, max_norm: 0 for the present units, and for the stated C. steps: 0 for `each`
        steps in each group of units.
        """
        self.report(name)
        trial = Trial(
            units.model(),
            units.population(present, population or int(present.sum())),
            Unit(self.claim.unit),
            max_norm or self.claim.max_norm,
            noise_multiplier,
            sampling_probability,
            steps or each * self.claim.bands,
            derived_seed(self.seed, name) % 2**31,
            PHYSICAL,
            learning_rate,
            square_root(self.claim.bands),
            resume_after,
        )
        return observe(self.engine, units, present, trial, finite)

    def some(self, units: Units, count: int) -> NDArray[np.bool_]:
        """Choose the present units, (m,)."""
        order = stream(self.seed, "present").permutation(len(units))
        return np.asarray(order < count)


def make(examiner: Examiner, with_texts: bool) -> Runs:
    """Make all runs."""
    c, by_user = examiner.claim.max_norm, examiner.claim.unit == Unit.USER
    near, far = [NEAR * c] * _FEW, [FAR * c] * _FEW
    return Runs(
        quiet=quiet_run(examiner),
        few=nearly_empty_run(examiner, "few"),
        again=nearly_empty_run(examiner, "again"),
        noise=noise_run(examiner),
        update=short_run(examiner, "update", separate(near), learning_rate=_RATE),
        tied=short_run(examiner, "tied", tied(far)),
        infinite=infinite_run(examiner, separate([math.inf, *far])),
        users=short_run(examiner, "users", separate(far, records=3)) if by_user else None,
        texts=text_runs(examiner, texts(_TEXTS)) if with_texts else None,
        resumed=resumed_run(examiner, separate([FAR * c] * _UNITS)),
    )


def quiet_run(examiner: Examiner) -> Observed:
    """Train on the present units alone: a larger population would hide a batch that is cut."""
    units = separate([(FAR, NEAR)[i % 2] * examiner.claim.max_norm for i in range(_UNITS)])
    return examiner.ask("quiet", units, examiner.some(units, _PRESENT))


def nearly_empty_run(examiner: Examiner, name: str) -> Observed:
    """Train where a third of the batches is empty, and most others hold blanks only."""
    claim = examiner.claim
    units = separate([FAR * claim.max_norm] * 2)
    return examiner.ask(
        name,
        units,
        examiner.some(units, 2),
        population=20,
        noise_multiplier=claim.noise_multiplier,
        sampling_probability=0.05,
        each=40,
    )


def noise_run(examiner: Examiner) -> Observed:
    """Train with every unit clipped to C, and a fair coin for each unit."""
    claim = examiner.claim
    units = separate([FAR * claim.max_norm] * _UNITS)
    return examiner.ask(
        "noise",
        units,
        stream(examiner.seed, "coins").random(_UNITS) < 0.5,
        population=max(_UNITS, round(_BATCH / claim.sampling_probability)),
        noise_multiplier=claim.noise_multiplier,
        sampling_probability=claim.sampling_probability,
        steps=claim.steps,
    )


def short_run(
    examiner: Examiner,
    name: str,
    units: Units,
    learning_rate: float = 0.0,
    finite: bool = True,
) -> Observed:
    """Train with every unit present, and in every second batch of its group."""
    return examiner.ask(
        name,
        units,
        examiner.some(units, len(units)),
        sampling_probability=0.5,
        each=_LONG,
        learning_rate=learning_rate,
        finite=finite,
    )


def resumed_run(examiner: Examiner, units: Units) -> Observed:
    """Resume in the middle of a round; with several bands, every unit is in each of its steps."""
    return examiner.ask(
        "resumed",
        units,
        examiner.some(units, len(units)),
        sampling_probability=0.5 if examiner.claim.bands == 1 else 1.0,
        each=_LONG,
        resume_after=_LONG // 2 * examiner.claim.bands + 1,
    )


def infinite_run(examiner: Examiner, units: Units) -> Observed | str:
    """Run the engine with an infinite gradient; why it stopped, where it did."""
    try:
        return short_run(examiner, "infinite", units, finite=False)
    except EngineStoppedError as stopped:
        return stopped.why


def text_runs(examiner: Examiner, units: Units) -> tuple[Observed, Observed]:
    """Train on texts of which half are clipped, each in every second batch.

    With one band a batch is never empty: transformers' GPT-2 cannot read one.
    """
    present, middle = examiner.some(units, _TEXTS_PRESENT), float(np.median(units.norms))

    def ask(name: str, noise_multiplier: float) -> Observed:
        return examiner.ask(
            name,
            units,
            present,
            noise_multiplier=noise_multiplier,
            sampling_probability=0.5,
            each=40,
            max_norm=middle,
        )

    return ask("texts", QUIET), ask("noisy texts", examiner.claim.noise_multiplier)
