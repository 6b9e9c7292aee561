"""Privacy loss of one release of any kind, by dp-accounting's own accountant for its event."""

from __future__ import annotations

from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import pld

from audit.accounting.privacy_loss import Losses
from audit.core.terms import Relation

_RELATIONS: dict[str, dp_accounting.NeighboringRelation] = {
    Relation.ADD_OR_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,
}
_FINE = 100  # intervals that a loss is wide when its width is known well enough


def losses(event: Any, relation: str, interval: float) -> tuple[Losses, ...]:
    """Discretise pessimistically: of removing and of adding the unit, one where both are alike.

    Raises dp-accounting's UnsupportedEventError for an event that it cannot bound in the relation.
    """
    accountant = pld.PLDAccountant(_RELATIONS[relation], interval)
    accountant.compose(event)
    removed, added = accountant._pld._pmf_remove, accountant._pld._pmf_add
    both = (removed,) if added is removed else (removed, added)
    return tuple(map(_losses, both))


def _losses(pmf: Any) -> Losses:
    """Read the library's masses, of which rounding makes some less than 0."""
    dense = pmf.to_dense_pmf()
    return Losses(dense._lower_loss, np.maximum(0.0, dense._probs), float(dense._infinity_mass))


def spread(event: Any, relation: str) -> tuple[float, float]:
    """Estimate width (nats) and variance of the privacy loss of removing the unit."""
    for power in range(7):
        interval = 10.0**-power
        low, masses, _ = losses(event, relation, interval)[0]
        if len(masses) >= _FINE:
            break
    at = (low + np.arange(len(masses))) * interval
    return len(masses) * interval, float(masses @ (at - masses @ at) ** 2)
