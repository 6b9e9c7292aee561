"""Bets on the coins of people who are asked about lot by lot, until a leak is decided.

Their proof, and what is said of a look that stops: docs/methods/looks.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from audit.core.evidence import Scores
from audit.core.randomness import stream
from audit.findings.case import Case
from audit.findings.rejections import test_of
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement
from audit.results.numbers import rounded_down
from audit.results.words import WEALTH, number
from audit.statistics import coin_bets
from audit.statistics.interval import Interval, IntervalKind

STOPPED = "The audit stopped at a leak, after a part of the people: only bets on these count."


def lots_of(people: int, lots: int, seed: int) -> NDArray[np.int64]:
    """Deal people into lots of equal size: (people,), from 0, which no coin and no score moves."""
    places = stream(seed, "looks", "lots").permutation(people)
    return np.asarray(places * lots // max(1, people))


def measurement(scores: Scores, case: Case) -> Measurement:
    """Bet on the coins by one score; `sizes` counts the people of each lot."""
    owners, own = case.compared(scores.values)
    owners, own = owners[~np.isnan(own)], own[~np.isnan(own)]
    # of evidence on several kinds one secret an owner: nobody bets twice on one coin
    owners, first = np.unique(owners, return_index=True)
    own = own[first]
    every = lots_of(len(case.heads), case.lots, case.seed)[owners]
    n, sizes = len(own), tuple(np.bincount(every, minlength=case.lots).tolist())
    # rounded as it is stored, since p follows from it
    won = rounded_down(coin_bets.wealth(own, case.heads[owners], every)) if n else None
    metric = f"{scores.target}_{scores.score}_bets"
    return case.measurement(
        scores,
        metric,
        Interval(won, None, None, n, 0.95, "one value", IntervalKind.NONE, sizes if n else ()),
        unit=WEALTH,
        observation=""
        if won is None
        else f"Bets on the coins of {n} people turned 1 into {number(won)}.",
        chance=1.0,
        p_value=None if won is None else 1.0 / max(1.0, won),
    )


def is_bet(measurement: Measurement) -> bool:
    """Return whether a measurement is of bets."""
    return measurement.unit == WEALTH


def adjusted(bets: Sequence[Measurement], planned: int = 1) -> dict[str, float]:
    """Compute the p-value of each test, adjusted for the other bets.

    bets: with a value. planned: how many there can be; those without a value still have their
    stake of 1, as they would raise a mean of losers if they joined later.
    """
    stakes = [1.0] * (planned - len(bets))
    values = coin_bets.closed(np.array([*(bet.value for bet in bets), *stakes], dtype=float))
    return {test_of(b): 1.0 / max(1.0, float(e)) for b, e in zip(bets, values, strict=False)}


def decided(measurements: Iterable[Measurement]) -> bool:
    """Return whether bets show a leak of the release itself. Their p-values are adjusted."""
    known = (m for m in measurements if is_bet(m) and not m.stronger_than_release)
    return any(m.adjusted_p is not None and m.adjusted_p <= LEVEL for m in known)


def asked(bets: Iterable[Measurement]) -> int:
    """Count the lots that were asked about."""
    every = (place for bet in bets for place, people in enumerate(bet.sizes, 1) if people)
    return max(every, default=0)


def stopped(measurements: Sequence[Measurement], lots: int) -> bool:
    """Return whether an audit in so many lots, if in more than one, stopped before the last.

    Where no leak was decided, everybody was asked, and who has no score gave none.
    """
    early = lots > 1 and asked(filter(is_bet, measurements)) < lots
    return early and decided(measurements)


def untested(measurement: Measurement) -> Measurement:
    """Remove what a look that stopped cannot say: no test of all people, and no bound on ε."""
    none = {"p_value": None, "epsilon_lower": None, "claim_test": None}
    return measurement.changed(**none, least_p=1.0, untested=STOPPED)
