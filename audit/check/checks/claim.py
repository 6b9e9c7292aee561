"""The claim: could the stated mechanism let the units' coins be guessed this well?

It is reported by itself, at .05: it refutes the claim, and the other checks show where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from audit.accounting import BandedSums, Gaussians, Mechanism, Term, banded, epsilon
from audit.accounting.trade_off import curve_of
from audit.check.observed import Observed
from audit.check.units import Floats
from audit.core.terms import Relation
from audit.statistics.claim_curve import p_value
from audit.statistics.claim_guesses import guess_count
from audit.statistics.sampled_gaussian import Area, area, log_ratios

LEVEL = 0.05
DELTA = 1e-5  # of the ε that is shown


@dataclass(frozen=True)
class ClaimTest:
    """The test of the stated mechanism on its own trade-off curve, where coins chose the units.

    sampling_probability: q as realised. epsilon: of the mechanism at δ = 1e-5, in nats.
    coins: m. guesses: r. right: v of them. needed: the least v that refutes; None: there is none.
    p: of the claim. area: how well the scores separate present from absent units; None where its
        law is not known, with several bands. bands: b̂.
    """

    noise_multiplier: float
    sampling_probability: float
    steps: int
    epsilon: float
    coins: int
    guesses: int
    right: int
    needed: int | None
    p: float
    area: Area | None
    bands: int = 1

    @property
    def refuted(self) -> bool:
        return self.p < LEVEL


def claim(run: Observed) -> ClaimTest:
    """Guess the coins of all units by likelihood ratios, and test the number of right guesses.

    run: with σ and q as stated; fair coins chose the present units, and each is clipped to norm C.
    """
    sigma, q, steps = run.trial.noise_multiplier, run.sampling_probability, run.trial.steps
    bands = run.trial.bands
    mechanism = Mechanism((_term(run),), Relation.ADD_OR_REMOVE)
    curve = curve_of(mechanism)
    assert curve is not None  # σ is above 0
    scores = scored(run)
    coins, present = len(scores), run.present
    side, needed = guess_count(curve, coins, LEVEL)
    order = np.argsort(scores)
    right = int(present[order[-side:]].sum() + (~present[order[:side]]).sum())
    return ClaimTest(
        sigma,
        q,
        steps,
        epsilon(mechanism, DELTA),
        coins,
        2 * side,
        right,
        needed,
        p_value(curve, coins, 2 * side, right),
        area(scores[present], scores[~present], float(run.deviations.mean()), q, steps)
        if bands == 1
        else None,
        bands,
    )


def _term(run: Observed) -> Term:
    """Make the term of the releases that a unit may be in."""
    trial, q = run.trial, run.sampling_probability
    if trial.bands == 1:
        return Gaussians(trial.noise_multiplier, trial.steps, q)
    count = banded.participations(trial.steps, trial.bands)
    return BandedSums(trial.noise_multiplier, count, trial.steps, trial.column, q)


def scored(run: Observed) -> Floats:
    """Compute the log-likelihood ratio of each unit, (m,), present against absent.

    With several bands, a step of a unit is seen in b̂ rows of C times the sums; what they show of it
    together is one number, (Cᵀ·C·a)_t/n_t with deviation s/√n_t, n_t the squared norm of a column.
    The group of a unit is unknown, so the ratio is the mean over all groups.
    """
    q, column = run.sampling_probability, np.asarray(run.trial.column)
    if len(column) == 1:
        return log_ratios(run.inclusion, run.deviations, q)
    seen = banded.times(column, run.inclusion)
    squares = banded.times(column**2, np.ones(len(seen))[:, None])[::-1]
    matched = banded.times(column, seen[::-1])[::-1] / squares
    deviations = run.deviations / np.sqrt(squares)
    every = [
        log_ratios(matched[j :: len(column)], deviations[j :: len(column)], q)
        for j in range(len(column))
    ]
    return np.asarray(scipy.special.logsumexp(every, axis=0) - np.log(len(column)))
