"""Privacy accounting: computes ε of a mechanism, finds the noise for an ε, stores both as JSON.

    from audit.accounting import Gaussians, Mechanism, calibrate, epsilon

    mechanism = Mechanism((Gaussians(1.1, 1000, 0.01),), "add_or_remove")
    epsilon(mechanism, 1e-5)  # in nats
    calibrate(3.0, 1e-5, mechanism)  # the noise multiplier with ε = 3

Every ε is an upper bound in nats: by dp-accounting's privacy loss distributions where they resolve
δ, by Rényi divergences where they do not, in closed form where nothing is sampled. No central limit
theorem is used. A claim is tested on the curve of its whole mechanism: `curve_of`.

A new kind of release is one file with a subclass of `term.Term` and one line in `table.KINDS`; its
ε, curve, table and verification follow. The mechanisms of ensembles are in
`defenses/ensembles/mechanisms/`.
"""

from audit.accounting.banded_sums import BandedSums
from audit.accounting.calibration import calibrate, least_noise
from audit.accounting.claimed import claimed_mechanism, described
from audit.accounting.composition import epsilon
from audit.accounting.gaussian import gaussian_epsilon
from audit.accounting.gaussians import Gaussians, hidden_states
from audit.accounting.laplace import laplace_divergence, laplace_epsilon, laplace_scale
from audit.accounting.mechanism import Mechanism, unknown_under
from audit.accounting.moments import moments
from audit.accounting.noise_bound import sigma_upper, with_noise
from audit.accounting.phrases import (
    EpsilonDistribution,
    distribution,
    phrase_distribution,
    phrase_epsilon,
)
from audit.accounting.replacement import epsilon_under_replace
from audit.accounting.table import from_table, recompute, terms_of, to_table
from audit.accounting.term import Term
from audit.accounting.trade_off import curve_of

__all__ = [
    "BandedSums",
    "EpsilonDistribution",
    "Gaussians",
    "Mechanism",
    "Term",
    "calibrate",
    "claimed_mechanism",
    "curve_of",
    "described",
    "distribution",
    "epsilon",
    "epsilon_under_replace",
    "from_table",
    "gaussian_epsilon",
    "hidden_states",
    "laplace_divergence",
    "laplace_epsilon",
    "laplace_scale",
    "least_noise",
    "moments",
    "phrase_distribution",
    "phrase_epsilon",
    "recompute",
    "sigma_upper",
    "terms_of",
    "to_table",
    "unknown_under",
    "with_noise",
]
