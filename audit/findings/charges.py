"""Findings on a service's ledger: what a query reveals about a unit of the data, beside its charge.

Charges are joined here, as coins are elsewhere. A charge bounds D_α in both directions, between the
service and its neighbour without that unit, or with it replaced where the claim covers that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.evidence import Divergences, LogRatios
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation
from audit.findings.case import Case, Charges
from audit.results.measurement import ChargeTest, Measurement
from audit.results.numbers import rounded_down
from audit.results.words import CHARGES, apart, at_least, at_most, count, number
from audit.statistics.interval import Interval, IntervalKind, no_interval
from audit.statistics.ledger_test import ledger_test

NEEDED = "needs a prediction service that keeps a ledger, and its neighbours"
_METHOD = "exact for these queries, less how far a probability that was read may be off"


def charged(
    guarantee: Guarantee, per_query: Sequence[Sequence[float]], budget: int | None
) -> Charges:
    """Join the charges of a session's answered queries with the claim of its release."""
    epsilon = math.inf if guarantee.epsilon is None else guarantee.epsilon
    return Charges(guarantee.alpha, np.array(per_query, dtype=float), epsilon, budget)


@dataclass(frozen=True)
class Comparison:
    """The query that reveals most of a unit in proportion to its charge, of all that were compared.

    query: its number in the session, from 0. unit, relation: the neighbour.
    divergence: the least D_α, nats, of the larger direction. charge: what that unit was charged.
    queries: number of queries compared. exceeded: of how many the divergence exceeds a charge.
    admitted: how often a session admits this query before its ledger stops; None: without limit.
    """

    query: int
    unit: int
    relation: str
    divergence: float
    charge: float
    queries: int
    exceeded: int
    admitted: int | None

    @property
    def share(self) -> float:
        """The divergence as a share of the charge."""
        if self.divergence <= 0.0:
            return 0.0
        return self.divergence / self.charge if self.charge > 0.0 else math.inf

    @property
    def refutes(self) -> bool:
        """Return whether a charge is too small: exactly, without any statistics."""
        return self.exceeded > 0


def compared(evidence: Divergences, charges: Charges | None) -> Comparison | None:
    """Compare every query with its charge, for every neighbour in both directions; None where
    nothing can be compared."""
    if charges is None or charges.order is None or evidence.order > charges.order:
        return None  # a divergence of a smaller order is smaller, one of a larger order may not be
    if not evidence.units or not evidence.forth.size:
        return None
    divergences = np.maximum(evidence.forth, evidence.back)  # (m, q)
    measured = ~np.isnan(divergences)
    charged = charges.per_query
    if charged.ndim < 2 or len(charged) < divergences.shape[1] or not measured.any():
        return None
    charged = charged[: divergences.shape[1], list(evidence.units)].T
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(divergences > 0.0, divergences / charged, 0.0)
    shares[~measured] = -1.0
    i, query = np.unravel_index(int(shares.argmax()), shares.shape)
    charge = float(charged[i, query])
    return Comparison(
        query=int(query),
        unit=evidence.units[i],
        relation=evidence.relations[i],
        divergence=float(divergences[i, query]),
        charge=charge,
        queries=int(measured.any(axis=0).sum()),
        exceeded=int((shares > 1.0).any(axis=0).sum()),
        admitted=_admitted(charge, charges),
    )


def from_divergences(evidence: Divergences, case: Case) -> list[Measurement]:
    """Find the largest share of a charge that a query uses up."""
    found = compared(evidence, case.charges)
    what = (evidence, "largest_share_of_charge", CHARGES, case)
    if found is None:
        return [_nothing(*what)]
    share, n = found.share, found.queries
    interval = Interval(share, share, share, n, 0.95, _METHOD, IntervalKind.EXACT)
    sentence = _sentence(found, evidence.order, len(evidence.units))
    return [_measurement(*what, interval, sentence, ChargeTest(queries=n, exceeded=found.exceeded))]


def from_log_ratios(evidence: LogRatios, case: Case) -> list[Measurement]:
    """Bet on the log ratios of drawn tokens that some charge is too small."""
    what = (evidence, "bet_on_charges", "wealth from a stake of 1", case)
    wealth, n = bet(evidence, case.charges)
    if not n:
        return [_nothing(*what)]
    wealth = rounded_down(wealth)  # as it is stored, since p follows from it
    p = 1.0 / max(1.0, wealth)
    sentence = (
        f"Bets on {n:,} drawn tokens that the ledger charges too little turned 1 into "
        f"{number(wealth)}: p = {p:.2g}."
    )
    interval = no_interval(n, 0.95, "one value", wealth)
    return [_measurement(*what, interval, sentence, ChargeTest(queries=n, p_value=p))]


def bet(evidence: LogRatios, charges: Charges | None) -> tuple[float, int]:
    """Compute (wealth from a stake of 1, number of tokens), over all neighbours and directions.

    The stake is split evenly, and no bet sees another's wealth, so a mean of wealths is expected to
    be at most 1 if no charge is too small, whatever depends on whatever: 1/wealth is a p-value.
    """
    if charges is None or charges.order is None or not evidence.units or charges.per_query.ndim < 2:
        return 1.0, 0
    wealths, n = [], 0
    for ratios, queries in (
        (evidence.forth, evidence.forth_queries),
        (evidence.back, evidence.back_queries),
    ):
        for unit, row, numbers in zip(evidence.units, ratios, queries, strict=True):
            seen = ~np.isnan(row)
            charged = charges.per_query[numbers[seen], unit]
            wealths.append(ledger_test(row[seen], charged, charges.order).e_value)
            n += int(seen.sum())
    return float(np.mean(wealths)), n


def _sentence(found: Comparison, order: float, neighbours: int) -> str:
    changed = "replaced" if found.relation == Relation.REPLACE else found.relation
    charge, least = at_most(found.charge), at_least(found.divergence)
    if found.divergence > found.charge:
        charge, least = apart(found.charge, found.divergence)
    charged = (
        f"the ledger charged query {found.query + 1} {charge} nats, and its "
        f"D_{order:g} with part {found.unit + 1} {changed} is at least {least}"
    )
    queries = "1 query" if found.queries == 1 else f"{found.queries:,} queries"
    asked = f"{queries}, compared with {count(neighbours, 'neighbour')} both ways"
    if not found.refutes:
        return f"{asked}: each within its charge. The nearest: {charged}."
    return f"{asked}: {found.exceeded:,} beyond their charge. The worst: {charged}.{_total(found)}"


def _total(found: Comparison) -> str:
    if found.admitted is None:
        return " No ledger would stop a session of such queries."
    total = number(found.divergence * found.admitted)
    return f" A session admits {found.admitted:,} such queries, in all {total} nats."


def _admitted(charge: float, charges: Charges) -> int | None:
    """Count how many queries of this charge a session admits: the sum stays below its budget."""
    most = math.inf if charges.budget is None else charges.budget
    if charge > 0.0 and charges.epsilon < math.inf:
        most = min(most, math.ceil(charges.epsilon / charge) - 1)
    return None if most == math.inf else int(most)


def _nothing(evidence: Divergences | LogRatios, metric: str, unit: str, case: Case) -> Measurement:
    """Explain why nothing was compared: no such service, or one that stopped before any answer."""
    apt = evidence.units and case.charges is not None and case.charges.order is not None
    why = "no query was answered" if apt else NEEDED
    seen, untested = no_interval(0, 0.95, why), why if apt else f"it {why}"
    return _measurement(evidence, metric, unit, case, seen, "", ChargeTest(queries=0), untested)


def _measurement(
    evidence: Divergences | LogRatios,
    metric: str,
    unit: str,
    case: Case,
    seen: Interval,
    observation: str,
    test: ChargeTest,
    untested: str = "",
) -> Measurement:
    return case.measurement(
        evidence,
        metric,
        seen,
        unit=unit,
        observation=observation,
        untested=untested,
        charge_test=test,
        stronger_than_release=False,  # the auditor asks the service itself, and its neighbours
        untrained="",
    )
