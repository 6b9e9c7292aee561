"""Converts ε for adding or removing a unit into ε for replacing one."""

from __future__ import annotations

import math
from dataclasses import replace

from audit.accounting.composition import TOLERANCE, epsilon, epsilon_at
from audit.accounting.mechanism import Mechanism, unknown_under
from audit.accounting.renyi import known_coins_epsilon
from audit.core.terms import Relation


def epsilon_under_replace(
    mechanism: Mechanism, delta: float, tolerance: float = TOLERANCE
) -> float:
    """Compute an upper bound on ε (nats) at δ under replace, of a mechanism under add-or-remove.

    By the pair that dominates replacing one record (REPLACE_ONE in dp-accounting). For sampled
    units of several records no such pair is known, and the smaller of two bounds is returned:
    - removed and then added: the first leg at (ε₁, δ/2), the second at (ε₂, e^-ε₁·δ/2) make
      (ε₁ + ε₂, δ): P(A) <= e^ε₁ R(A) + δ/2 <= e^ε₁ (e^ε₂ Q(A) + e^-ε₁·δ/2) + δ/2;
    - as if the coins were released too (`known_coins_epsilon`): smaller for very many records.
    """
    if not unknown_under(Relation.REPLACE, mechanism.terms):
        return epsilon(replace(mechanism, relation=Relation.REPLACE), delta, tolerance)
    first = epsilon(mechanism, delta / 2.0, tolerance)
    if math.isinf(first):
        return first
    legs = first + epsilon_at(mechanism, math.log(delta / 2.0) - first, tolerance)
    return min(legs, known_coins_epsilon(mechanism, math.log(delta)))
