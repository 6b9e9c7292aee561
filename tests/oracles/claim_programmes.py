"""Linear programmes that bound P[at least v right guesses] under a claim, without any recursion.

`over_laws` searches the laws of the number of right guesses that the averaged inequalities allow;
`over_mechanisms` the conditional laws of the guesses themselves, every coin's claim stated in full.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array


def over_laws(epsilons, deltas, m, r, v):
    """Finds the largest P[T >= v] of a law of T in 0 … r with R_{j+1} <= h(W_j) for all j.

    R_j = E[T; T >= j]/m, W_j = E[r - T; T >= j]/m; h is the least of the lines of both kinds.
    """
    t = np.arange(r + 1)
    e = np.exp(epsilons)
    rows, limits = [], []
    for j in range(r):
        right = np.where(t >= j + 1, t / m, 0.0)
        wrong = np.where(t >= j, (r - t) / m, 0.0)
        for growth, delta in zip(e, deltas, strict=True):
            rows.append(right - growth * wrong)  # h <= e^ε w + δ
            limits.append(delta)
            rows.append(right - wrong / growth)  # h <= 1 - e^-ε (1 - w - δ)
            limits.append(1.0 - (1.0 - delta) / growth)
    found = linprog(
        -(t >= v).astype(float),
        A_ub=np.array(rows),
        b_ub=limits,
        A_eq=np.ones((1, r + 1)),
        b_eq=[1.0],
    )
    assert found.status == 0, found.message
    return -found.fun


def over_mechanisms(epsilons, removed, added, m, r, v):
    """Finds the largest P[T >= v] of a release about m fair coins that guesses r of them.

    For every coin, whatever the remaining coins are, and every set of outputs A:
    P(A | in) <= e^ε P(A | out) + removed and P(A | out) <= e^ε P(A | in) + added, at these ε.
    """
    coins = list(itertools.product((0, 1), repeat=m))
    place = {bits: i for i, bits in enumerate(coins)}
    guesses = [
        (chosen, bits)
        for chosen in itertools.combinations(range(m), r)
        for bits in itertools.product((0, 1), repeat=r)
    ]
    n = len(guesses)
    won = [
        sum(bits[i] == guess for i, guess in zip(chosen, guessed, strict=True)) >= v
        for bits in coins
        for chosen, guessed in guesses
    ]
    pairs = [
        (place[bits], place[(*bits[:i], 0, *bits[i + 1 :])])
        for bits in coins
        for i in range(m)
        if bits[i]
    ]
    inequalities = [
        side
        for there, away in pairs
        for epsilon, x, y in zip(epsilons, removed, added, strict=True)
        for side in ((there, away, epsilon, x), (away, there, epsilon, y))
    ]
    entries, limits = [], []
    first = n * len(coins)  # then come the excesses max(0, P - e^ε Q), whose sum is at most δ
    for k, (p, q, epsilon, delta) in enumerate(inequalities):
        row = k * (n + 1)
        for a in range(n):
            excess = first + k * n + a
            entries += [(row + a, p * n + a, 1.0), (row + a, q * n + a, -np.exp(epsilon))]
            entries += [(row + a, excess, -1.0), (row + n, excess, 1.0)]
        limits += [0.0] * n + [delta]
    rows, columns, values = zip(*entries, strict=True)
    variables = first + n * len(inequalities)
    cost = np.zeros(variables)
    cost[:first] = -np.array(won, dtype=float) / len(coins)
    laws = np.arange(first) // n, np.arange(first)
    sums = coo_array((np.ones(first), laws), shape=(len(coins), variables))
    found = linprog(
        cost,
        A_ub=coo_array((values, (rows, columns)), shape=(len(limits), variables)).tocsr(),
        b_ub=limits,
        A_eq=sums.tocsr(),
        b_eq=np.ones(len(coins)),
    )
    assert found.status == 0, found.message
    return -found.fun
