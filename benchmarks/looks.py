"""Measures what several looks at one model cost and save: python benchmarks/looks.py

People with coins are asked one lot after the other, as of an endpoint whose answers cost money.
After each lot a look may stop with a leak; all looks share the level of 5 %. Beside it: one test of
everybody at the end. Scores are normal, so that their AUC is known.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).parents[1]))

from audit.core.guarantee import no_guarantee
from audit.findings import measurements_of, tests_of
from audit.findings.adjusted import adjusted
from audit.findings.rejections import Family
from audit.results.joined import LEVEL
from audit.scores.given import Sides
from audit.scores.judged import Model

LOOKS, LOT, RUNS = 10, 20, 200  # looks, people a look, simulated audits
AUCS = (0.5, 0.6, 0.75, 0.9)
CLAIM = no_guarantee("simulation")


def smallest_p(inside: np.ndarray, outside: np.ndarray, looks: int, seed: int) -> float:
    """Compute the smallest adjusted p-value of one look at these people."""
    model = Model(Sides(inside, outside), CLAIM, 1e-5, seed)
    case, evidence = model.case, [model.evidence]
    family = Family(case.tests, case.claim_tests).over(looks)
    found, tests = measurements_of(evidence, case), tests_of(evidence, case)
    done = adjusted(found, tests, case.heads, model.guarantee, family, seed)
    return min(m.adjusted_p for m in done if m.adjusted_p is not None)


def stop(auc: float, draws: np.random.Generator, seed: int) -> tuple[int | None, bool]:
    """Return the look that stops with a leak, if any, and whether one test of all finds it."""
    n = LOOKS * LOT
    heads = draws.random(n) < 0.5
    scores = draws.normal(size=n) + heads * np.sqrt(2) * float(ndtri(auc))
    stopped = None
    for look in range(1, LOOKS + 1):
        seen = slice(0, look * LOT)
        sides = scores[seen][heads[seen]], scores[seen][~heads[seen]]
        if min(map(len, sides)) >= 2 and smallest_p(*sides, LOOKS, seed) <= LEVEL:
            stopped = look
            break
    return stopped, smallest_p(scores[heads], scores[~heads], 1, seed) <= LEVEL


def main() -> None:
    print(f"{LOOKS} looks at {LOT} people more each, {RUNS} simulated audits")
    print("| AUC | a look stops with a leak | median look | one test of all people finds it |")
    print("|---|---|---|---|")
    draws = np.random.default_rng(7)
    for auc in AUCS:
        ends = [stop(auc, draws, seed) for seed in range(RUNS)]
        stops = [look for look, _ in ends if look is not None]
        median = f"{np.median(stops):.0f} of {LOOKS}" if len(stops) > RUNS / 2 else "–"
        one = sum(found for _, found in ends)
        print(f"| {auc} | {len(stops) / RUNS:.0%} | {median} | {one / RUNS:.0%} |")


if __name__ == "__main__":
    main()
