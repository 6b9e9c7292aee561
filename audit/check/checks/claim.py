"""The claim: could the stated mechanism let the units' coins be guessed this well?

It is reported by itself, at .05: it refutes the claim, and the other checks show where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.accounting import Gaussians, Mechanism, epsilon
from audit.accounting.trade_off import curve_of
from audit.check.observed import Observed
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
    p: of the claim. area: how well the scores separate present from absent units.
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
    area: Area

    @property
    def refuted(self) -> bool:
        return self.p < LEVEL


def claim(run: Observed) -> ClaimTest:
    """Guess the coins of all units by likelihood ratios, and test the number of right guesses.

    run: with σ and q as stated; fair coins chose the present units, and each is clipped to norm C.
    """
    sigma, q, steps = run.trial.noise_multiplier, run.sampling_probability, run.trial.steps
    mechanism = Mechanism((Gaussians(sigma, steps, q),), Relation.ADD_OR_REMOVE)
    curve = curve_of(mechanism)
    assert curve is not None  # σ is above 0
    scores = log_ratios(run.inclusion, run.deviations, q)
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
        area(scores[present], scores[~present], float(run.deviations.mean()), q, steps),
    )
