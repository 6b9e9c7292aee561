"""The moments accountant's ε, as papers publish it."""

from __future__ import annotations

from absl import logging
from dp_accounting import rdp

from audit.accounting.events import event
from audit.accounting.mechanism import Mechanism


def moments(mechanism: Mechanism, delta: float) -> float:
    """ε (nats, add-or-remove) at δ by dp-accounting's RDP accountant at its own orders.

    For figures labelled "published", never for a guarantee: looser than `epsilon`, and where
    divergences are below rounding error the library answers 0. Raises ValueError under "replace",
    where its Gaussians are not doubled, and for sampled units of several records, unknown to it.
    """
    if mechanism.relation != "add_or_remove":
        raise ValueError("the moments accountant's figure is for add_or_remove")
    if any(term.sampled and term.records > 1 for term in mechanism.terms):
        raise ValueError("the moments accountant does not know sampled units of several records")
    accountant = rdp.RdpAccountant()
    said = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # orders that do not converge are left out, with a warning
    try:
        accountant.compose(event(mechanism))
    finally:
        logging.set_verbosity(said)
    return float(accountant.get_epsilon(delta))
