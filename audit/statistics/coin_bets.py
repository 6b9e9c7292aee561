"""Bets on fair coins by scores, one lot of people after the other: wealth that may stop any time.

A gambler holds a belief p that a coin is heads, and stakes all of the wealth at the odds of a fair
coin: heads multiplies it by 2p, tails by 2(1 − p). Whatever p follows from, nothing is gained on
average if the coin is independent of it (docs/methods/looks.md, after Waudby-Smith and Ramdas,
arXiv 2010.09686; closed means of e-values: Vovk and Wang, arXiv 1912.06116).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, ndtri
from scipy.stats import rankdata

Floats = NDArray[np.float64]

MOST = 1e12  # of a wealth: more is no better evidence
# how much a normal score moves a belief: a gambler each, who all begin with the same wealth
_TILTS = np.array([0.25, 0.5, 1.0, 2.0])


def wealth(
    scores: Floats, coins: NDArray[np.bool_], lots: NDArray[np.int64], epsilon: float = 0.0
) -> float:
    """Compute the wealth from a stake of 1 after all lots, at most MOST.

    scores: (n,), higher = more likely heads; a belief is of a score's rank among all of its lot and
    of those before. coins: (n,), True = heads. lots: (n,), the look at which each is revealed.
    epsilon: pure ε in nats, of a user added or removed, that is bet against; 0: that no score
    depends on a coin. If that is so, the mean is at most 1 wherever the lots were stopped, so the
    wealth is at least 1/γ with probability at most γ.
    """
    logs = np.zeros(len(_TILTS))
    for lot in np.unique(lots):
        seen, now = lots <= lot, lots == lot
        places = (rankdata(scores[seen]) - 0.5) / seen.sum()
        own = ndtri(places[lots[seen] == lot])
        logs += np.log(_factors(expit(np.outer(_TILTS, own)), coins[now], epsilon)).sum(axis=1)
    return math.exp(min(float(logsumexp(logs)) - math.log(len(_TILTS)), math.log(MOST)))


def _factors(beliefs: Floats, coins: NDArray[np.bool_], epsilon: float) -> Floats:
    """Compute what each coin multiplies the wealth by. beliefs: (gamblers, coins).

    Heads has at most the probability q = e^ε/(1 + e^ε), and at least 1 − q: a belief between these
    bets nothing, another one at the odds of the nearer of both.
    """
    nearer = np.clip(beliefs, expit(-epsilon), expit(epsilon))
    heads, tails = beliefs / nearer, (1 - beliefs) / (1 - nearer)
    return np.asarray(np.where(coins, heads, tails))


def closed(wealths: Floats) -> Floats:
    """Adjust wealths for each other: (tests,), each the least mean of a set that it is in.

    If the bets of some are fair, one of these is at least 1/γ with probability at most γ, however
    they depend on each other. None is above its own wealth.
    """
    order = np.argsort(wealths, kind="stable")
    rising = wealths[order]
    below = np.concatenate([[0.0], np.cumsum(rising)])
    adjusted = np.empty(len(rising))
    for place, own in enumerate(rising):  # larger ones only raise a mean
        adjusted[order[place]] = ((own + below[: place + 1]) / np.arange(1, place + 2)).min()
    return adjusted
