"""Measures what several looks at one model cost and save: python benchmarks/looks.py [training]

People with coins are asked one lot after the other, as of an endpoint whose answers cost money.
After each lot a look may stop with a leak, by the tests of all people so far, where all looks share
the level of 5 %, or by bets on those of each lot. Beside it: one test of everybody at the end.
With "training", all people are scored at each look of a training whose AUC grows, and looks share
the level, or go on from the tosses that crossed earlier limits.
Scores are normal, so that their AUC is known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).parents[1]))

from audit.core.guarantee import no_guarantee
from audit.findings import bets, measurements_of, tests_of
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
    done = adjusted(found, tests, case.heads, model.guarantee, family, seed).measurements
    return min(m.adjusted_p for m in done if m.adjusted_p is not None)


def found_in_lots(inside: np.ndarray, outside: np.ndarray, seed: int) -> tuple[int | None, bool]:
    """Return the lot after which bets stop with a leak, if any, and whether one is found at all.

    Without bets that do, all people are tested at the end, as `audit run --until decided` does.
    """
    model = Model(Sides(inside, outside), CLAIM, 1e-5, seed)
    case = replace(model.case, lots=LOOKS)
    dealt = bets.lots_of(len(case.heads), LOOKS, seed)
    family = Family(case.tests, case.claim_tests).in_lots(LOOKS)
    for lot in range(LOOKS):
        values = np.where(dealt <= lot, model.evidence.values, np.nan)
        bet = bets.measurement(replace(model.evidence, values=values), case)
        if family.looks * bets.adjusted([bet])[bet.test] <= LEVEL:
            return lot + 1, True
    return None, smallest_p(inside, outside, family.looks, seed) <= LEVEL


class End(NamedTuple):
    """The looks that stop with a leak, and whether one is found by bets or at their end, or by one
    test of all people."""

    shares: int | None
    bets: int | None
    found: bool
    whole: bool


def stop(auc: float, draws: np.random.Generator, seed: int) -> End:
    """Simulate one audit, looked at in both ways."""
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
    sides = scores[heads], scores[~heads]
    return End(stopped, *found_in_lots(*sides, seed), smallest_p(*sides, 1, seed) <= LEVEL)


PEOPLE, AGREE = 100, 0.9  # people who are scored at each look, and how alike two looks' scores are
ENDS = (0.5, 0.6, 0.65, 0.7, 0.75)  # AUC at the end of a training


class Trained(NamedTuple):
    """The first looks to find a leak, by shares and tossed on, and whether one at the end does."""

    shares: int | None
    tossed: int | None
    whole: bool


def trained(auc: float, draws: np.random.Generator, seed: int) -> Trained:
    """Simulate the audits of one training, which learns the same amount between two looks."""
    half, noise = PEOPLE // 2, draws.normal(size=PEOPLE)
    first: dict[str, int | None] = {"shares": None, "tossed": None}
    crossed, alone = None, 1.0
    for look in range(1, LOOKS + 1):
        noise = AGREE * noise + np.sqrt(1 - AGREE**2) * draws.normal(size=PEOPLE)
        shift = np.sqrt(2) * float(ndtri(auc)) * look / LOOKS
        model = Model(Sides(noise[:half] + shift, noise[half:]), CLAIM, 1e-5, seed)
        case, evidence = model.case, [model.evidence]
        family = Family(case.tests, case.claim_tests).over(LOOKS)
        found, tests = measurements_of(evidence, case), tests_of(evidence, case)
        done = adjusted(found, tests, case.heads, model.guarantee, family, seed, crossed)
        crossed = done.crossed
        alone = min(m.look_p for m in done.measurements if m.look_p is not None)
        tossed = min(m.adjusted_p for m in done.measurements if m.adjusted_p is not None)
        for name, p in (("shares", LOOKS * alone), ("tossed", tossed)):
            if p <= LEVEL and first[name] is None:
                first[name] = look
    return Trained(first["shares"], first["tossed"], alone <= LEVEL)


def of_trainings() -> None:
    print(f"{LOOKS} looks at {PEOPLE} people, {RUNS} simulated trainings")
    print(
        "| AUC at the end | shares: a look finds a leak | median look | tossed on: a look finds it "
        "| median look | one audit at the end finds it |"
    )
    print("|---|---|---|---|---|---|")
    draws = np.random.default_rng(7)
    for auc in ENDS:
        shares, tossed, whole = zip(*(trained(auc, draws, s) for s in range(RUNS)), strict=True)
        print(f"| {auc} | {stops_at(shares)} | {stops_at(tossed)} | {sum(whole) / RUNS:.0%} |")


def stops_at(looks: Sequence[int | None]) -> str:
    """Write how many audits a look stops, and the median look of all."""
    count = sum(look is not None for look in looks)
    middle = float(np.median([np.inf if look is None else look for look in looks]))
    return f"{count / RUNS:.0%} | {f'{middle:.0f} of {LOOKS}' if np.isfinite(middle) else ''}"


def main() -> None:
    print(f"{LOOKS} looks at {LOT} people more each, {RUNS} simulated audits")
    print(
        "| AUC | shares: a look stops with a leak | median look | bets: a look stops with a leak | "
        "median look | bets or the test at the end find it | one test of all people finds it |"
    )
    print("|---|---|---|---|---|---|---|")
    draws = np.random.default_rng(7)
    for auc in AUCS:
        shares, by_bets, found, whole = zip(
            *(stop(auc, draws, s) for s in range(RUNS)), strict=True
        )
        rates = " | ".join(f"{sum(each) / RUNS:.0%}" for each in (found, whole))
        print(f"| {auc} | {stops_at(shares)} | {stops_at(by_bets)} | {rates} |")


if __name__ == "__main__":
    of_trainings() if "training" in sys.argv[1:] else main()
