"""Measures what the tests of a claim and the bounds on ε find, on scores whose law is known.

    python benchmarks/power.py [RUNS]        prints the tables of docs/methods/empirical-epsilon.md

1. The median 95 % lower bound on ε at δ = 1e-5, from one score per user and fair coins: by one test
   (a third of the users guessed "in", a third "out"), by all rules fixed beforehand, and by
   jax_privacy (https://pypi.org/project/jax_privacy) on the same scores, where it is installed.
2. How often a false claim of DP-SGD is refuted: on its curve, and as an (ε, δ) pair by the same
   one test and all rules. Scores are likelihood ratios of all noisy gradients, at the claim.
3. How many coins it takes to refute a training without any noise.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.accounting import (
    Gaussians,
    Mechanism,
    calibrate,
    curve_of,
    described,
    epsilon,
    with_noise,
)
from audit.findings.bounds import Guesses, rules
from audit.statistics import nested_guesses, power
from audit.statistics.claim_guesses import coins_needed, guess_count

DELTA, LEVEL = 1e-5, 0.05
SIZES = (100, 500, 1000)
Scores = NDArray[np.float64]  # (runs, m)
Present = NDArray[np.bool_]  # (runs, m)
Law = Callable[[Present, np.random.Generator], Scores]


def thirds(m: int) -> list[Guesses]:
    """Build the one test."""
    return [Guesses(max(1, m // 3), both=True)]


def right(rule: Guesses, by_score: Present) -> NDArray[np.int64]:
    """Count right guesses of each run, (runs,). by_score: presence, by falling score."""
    inside: NDArray[np.int64] = by_score[:, : rule.each].sum(axis=1)
    return inside + (~by_score[:, -rule.each :]).sum(axis=1) if rule.both else inside


def shifted(mu: float) -> Law:
    """Scores are N(0, 1), and N(μ, 1) of everybody who is present."""
    return lambda present, draws: draws.normal(mu * present)


def minority(share: float) -> Law:
    """So large a share of those who are present leaks with certainty, the rest not at all."""

    def law(present: Present, draws: np.random.Generator) -> Scores:
        leaks = present & (draws.random(present.shape) < share)
        return np.where(leaks, 10.0, draws.normal(size=present.shape))

    return law


def randomised_response(true_epsilon: float) -> Law:
    """Each coin is answered truthfully with probability e^ε/(1 + e^ε)."""

    def law(present: Present, draws: np.random.Generator) -> Scores:
        honest = draws.random(present.shape) < 1.0 / (1.0 + math.exp(-true_epsilon))
        return np.where(present == honest, 1.0, 0.0)

    return law


LEAKS: dict[str, Law] = {
    "Gaussian scores, shift 1": shifted(1.0),
    "Gaussian scores, shift 2": shifted(2.0),
    "5 % of the members leak completely": minority(0.05),
    "20 % of the members leak completely": minority(0.20),
    "randomised response, ε = 2": randomised_response(2.0),
}


def coins(runs: int, m: int, draws: np.random.Generator) -> Present:
    return draws.random((runs, m)) < 0.5


def ranked(scores: Scores, present: Present, draws: np.random.Generator) -> Present:
    """Sorts presence by falling score, ties by lot."""
    order = np.lexsort((draws.random(scores.shape), -scores), axis=1)
    return np.take_along_axis(present, order, axis=1)


@cache
def bound(m: int, guesses: tuple[tuple[int, int], ...]) -> float:
    return nested_guesses.epsilon_lower(m, guesses, DELTA, LEVEL)


def bounds(by_score: Present, used: list[Guesses]) -> NDArray[np.float64]:
    """Compute the bound of every run, of these rules together."""
    counts = np.stack([right(rule, by_score) for rule in used], axis=1).tolist()
    sizes, m = [rule.count for rule in used], by_score.shape[1]
    return np.array([bound(m, tuple(zip(sizes, row, strict=True))) for row in counts])


# 1: the bound


def table_of_bounds(runs: int, theirs: Any) -> Iterator[str]:
    columns = ["m", "one test", "all rules"]
    columns += ["jax_privacy, Bonferroni", "jax_privacy, split"] if theirs else []
    yield row("median bound on ε", *columns)
    yield row(*["---"] * (1 + len(columns)))
    for name, law in LEAKS.items():
        for m in SIZES:
            draws = np.random.default_rng([m, list(LEAKS).index(name)])
            present = coins(runs, m, draws)
            scores = law(present, draws)
            by_score = ranked(scores, present, draws)
            found = [bounds(by_score, thirds(m)), bounds(by_score, rules(m))]
            if theirs:
                found += list(
                    np.transpose([theirs(*pair) for pair in zip(scores, present, strict=True)])
                )
            yield row(name, m, *(f"{np.median(values):.2f}" for values in found))


def jax_privacy() -> Callable[[Scores, Present], tuple[float, float]] | None:
    """Its bounds over all thresholds, and at one chosen on half of the scores; None without it."""
    try:
        auditing = importlib.import_module("jax_privacy.auditing")
    except ImportError:
        return None

    def found(scores: Scores, present: Present) -> tuple[float, float]:
        auditor = auditing.CanaryScoreAuditor(scores[present], scores[~present])
        split = auditing.Split(seed=0)
        return (
            float(auditor.epsilon_one_run(LEVEL, DELTA)),
            float(auditor.epsilon_one_run(LEVEL, DELTA, threshold_strategy=split)),
        )

    return found


# 2: false claims


@dataclass(frozen=True)
class Training:
    """The true training. noise: σ, times the claimed one. scale: of every gradient.
    rate: how often a unit is sampled, times the claimed q."""

    noise: float = 1.0
    scale: float = 1.0
    rate: float = 1.0


CLAIMS = tuple(
    Mechanism((Gaussians(sigma, steps, q),), "add_or_remove")
    for sigma, q, steps in ((1.0, 0.01, 1000), (1.1, 0.02, 500), (0.9, 0.04, 250))
)
FAULTS = {
    "none: as claimed": Training(),
    "half the noise": Training(noise=0.5),
    "clipped at 2C": Training(scale=2.0),
    "sampled 4 times as often": Training(rate=4.0),
    "a quarter of the noise": Training(noise=0.25),
}


def score_pool(
    claim: Mechanism, truth: Training, size: int, draws: np.random.Generator
) -> NDArray[np.float64]:
    """Draws (2, size) scores of absent and present units: the log likelihood ratio of every step's
    noisy gradient, at the claim."""
    (term,) = claim.terms
    q, sigma = term.sampling_probability, term.noise_multiplier
    present = np.repeat([[False], [True]], size, axis=1)
    total = np.zeros(present.shape)
    for _ in range(term.count):
        sampled = present & (draws.random(present.shape) < truth.rate * q)
        x = draws.normal(truth.scale * sampled, truth.noise * sigma)
        total += np.log1p(q * np.expm1((2.0 * x - 1.0) / (2.0 * sigma**2)))
    return total


def table_of_refutations(runs: int) -> Iterator[str]:
    yield row("claim", "fault", "on its curve", "one test", "all rules")
    yield row(*["---"] * 5)
    for claim in CLAIMS:
        stated = epsilon(claim, DELTA)
        for fault, truth in FAULTS.items():
            draws = np.random.default_rng(len(fault))
            pool = score_pool(claim, truth, 20_000, draws)
            shares = [shares_refuted(claim, stated, pool, m, runs, draws) for m in SIZES]
            cells = [
                " / ".join(f"{share:.2f}" for share in column) for column in np.transpose(shares)
            ]
            yield row(f"{described(claim)}; ε = {stated:.2f}", fault, *cells)


def shares_refuted(
    claim: Mechanism,
    stated: float,
    pool: NDArray[np.float64],
    m: int,
    runs: int,
    draws: np.random.Generator,
) -> tuple[float, float, float]:
    """Count how often the claim is refuted at 5 %: on its curve, as (ε, δ) by one and by all."""
    present = coins(runs, m, draws)
    scores = pool[present.astype(int), draws.integers(0, pool.shape[1], present.shape)]
    by_score = ranked(scores, present, draws)
    s, least = guess_count(curve_of(claim), m, LEVEL)
    counts = right(Guesses(s, both=True), by_score)
    on_curve = 0.0 if least is None else float((counts >= least).mean())
    pairs = [float((bounds(by_score, used) > stated).mean()) for used in (thirds(m), rules(m))]
    return on_curve, pairs[0], pairs[1]


# 3: coins


def table_of_coins() -> Iterator[str]:
    """Full-size DP-SGD as `dp_sgd` trains on few users: half of them in each of 30 steps."""
    yield row("claim at δ = 1e-5", "on its curve", "as (ε, δ)", "on its curve, p < .005")
    yield row(*["---"] * 4)
    for target in (1.0, 2.0, 4.0, 8.0):
        half = Mechanism((Gaussians(1.0, 30, 0.5),), "add_or_remove")
        claim = with_noise(half, calibrate(target, DELTA, half))
        curve = curve_of(claim)
        needed = [coins_needed(curve, LEVEL), pair_coins(target), coins_needed(curve, 0.005)]
        shown = ["never" if n is None else f"{n:,}" for n in needed]
        yield row(f"ε = {target:g} ({described(claim)})", *shown)


def pair_coins(target: float) -> int | None:
    """Find how many coins the one test takes if every guess is right; None up to 100,000."""

    def refutable(m: int) -> bool:
        return power.largest_epsilon(m, DELTA, 1.0 - LEVEL, r=thirds(m)[0].count) > target

    return next((m for m in (int(10 * 1.02**k) for k in range(470)) if refutable(m)), None)


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for table in (
        table_of_bounds(runs, jax_privacy()),
        table_of_refutations(runs),
        table_of_coins(),
    ):
        print(*table, "", sep="\n")


if __name__ == "__main__":
    main()
