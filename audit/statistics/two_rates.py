"""Empirical ε from two error rates of an attack on many independent trainings (Jagielski et al.
2020, arXiv 2006.07709; Zanella-Béguelin et al. 2022, arXiv 2206.05199).

Only for independent trainings, one guess each: members and controls of one model share its
randomness and are not independent trials. The attack and its threshold are fixed on a disjoint
split of the trainings.
"""

from __future__ import annotations

import math

from audit.statistics.checks import check_confidence, check_delta
from audit.statistics.clopper_pearson import one_sided_upper


def epsilon_lower(
    false_positives: int,
    controls: int,
    false_negatives: int,
    members: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Compute the ε (nats) that two error rates refute at this delta, in the worlds' relation.

    controls: trainings without the unit, in false_positives of which the attack said "member";
    members: trainings with it, in false_negatives of which the attack said "not a member". Of an
    (ε, δ)-DP training, 1 - δ - FNR <= e^ε FPR and 1 - δ - FPR <= e^ε FNR. Each rate gets its exact
    (Clopper-Pearson) upper limit at half the error, and both inequalities fall in both rates, so
    the same two limits serve the larger of the two bounds. 0.0 if nothing is shown.
    Raises ValueError unless 0 <= false_positives <= controls, 0 <= false_negatives <= members,
    0 <= delta <= 1 and 0 < confidence < 1.
    """
    check_delta(delta)
    check_confidence(confidence)
    each = 1.0 - (1.0 - confidence) / 2.0
    false_alarm = one_sided_upper(false_positives, controls, each)
    miss = one_sided_upper(false_negatives, members, each)
    odds = max((1.0 - delta - miss) / false_alarm, (1.0 - delta - false_alarm) / miss)
    return math.log(odds) if odds > 1.0 else 0.0
