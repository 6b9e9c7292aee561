"""Privacy accounting: computes ε of a mechanism, finds the noise for an ε, stores both as JSON.

    from audit.accounting import Gaussians, Mechanism, calibrate, epsilon

    sigma = calibrate(3.0, 1e-5, sampling_probability=0.01, count=1000, relation="add_or_remove")
    epsilon(Mechanism((Gaussians(sigma, 1000, 0.01),), "add_or_remove"), 1e-5)  # at most 3.0 nats

Every ε is an upper bound in nats: by dp-accounting's privacy loss distributions where they resolve
δ, by Rényi divergences where they do not, in closed form where nothing is sampled. No central limit
theorem is used. A claim is tested on the curve of its whole mechanism: `curve_of`.

A new mechanism of noisy sums starts in `mechanism.py`, and `composition.py` chooses its bound. The
mechanisms of ensembles are in `defenses/ensembles/mechanisms/`.
"""

from audit.accounting.calibration import calibrate, least_noise
from audit.accounting.claimed import claimed_mechanism, described
from audit.accounting.composition import epsilon
from audit.accounting.gaussian import gaussian_epsilon
from audit.accounting.laplace import laplace_divergence, laplace_epsilon, laplace_scale
from audit.accounting.mechanism import Gaussians, Mechanism, hidden_states
from audit.accounting.moments import moments
from audit.accounting.noise_bound import sigma_upper, with_noise
from audit.accounting.phrases import (
    EpsilonDistribution,
    distribution,
    phrase_distribution,
    phrase_epsilon,
)
from audit.accounting.replacement import epsilon_under_replace, replaced
from audit.accounting.table import from_table, recompute, to_table
from audit.accounting.trade_off import curve_of

__all__ = [
    "EpsilonDistribution",
    "Gaussians",
    "Mechanism",
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
    "replaced",
    "sigma_upper",
    "to_table",
    "with_noise",
]
