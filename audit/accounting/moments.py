"""The moments accountant's ε, as published in papers."""

from __future__ import annotations

from audit.accounting.mechanism import Mechanism
from audit.core.terms import Relation


def moments(mechanism: Mechanism, delta: float) -> float:
    """Compute ε (nats, add-or-remove) at δ by dp-accounting's RDP accountant at its own orders.

    For figures labelled "published", never for a guarantee: looser than `epsilon`, and the library
    returns 0 where divergences are below rounding error. Raises ValueError under "replace", where
    its Gaussians are not doubled, and for sampled units of several records, which it lacks.
    """
    if mechanism.relation != Relation.ADD_OR_REMOVE:
        raise ValueError("the moments accountant's figure is for add_or_remove")
    if any(not term.is_gaussian and term.records > 1 for term in mechanism.terms):
        raise ValueError("the moments accountant does not know sampled units of several records")
    from absl import logging
    from dp_accounting import rdp  # takes half a second to import

    accountant = rdp.RdpAccountant()
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # it warns of each order that does not converge
    try:
        for term in mechanism.active:
            accountant.compose(term.event(), term.count)
    finally:
        logging.set_verbosity(verbosity)
    return float(accountant.get_epsilon(delta))
