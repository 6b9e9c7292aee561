"""From evidence to findings: here, and only here, the coins are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from audit.attack import Evidence, Hits, Likelihoods
from audit.results import Control, EpsilonLower, Power
from audit.secrets import Coins, Secret
from audit.statistics import discoverable, one_run, power, rank_test
from audit.statistics import hits as hits_test
from audit.statistics.bootstrap import bootstrap_ratio
from audit.statistics.interval import Interval, clopper_pearson, one_sided_upper
from audit.streams import stream

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.05  # family-wise, over the tests of one release
DRAWS = 1000  # n of (n, p)-discoverable extraction


@dataclass(frozen=True)
class Finding:
    """One measurement with everything it must travel with; the verdict comes later.

    p_value: one-sided, of "the release does not depend on what was planted"; None: not tested.
    test: the test the p-value is of; metrics that share a test share its name.
    """

    attack: str
    metric: str
    access: str
    unit: str
    interval: Interval
    k: int | None
    chance: float | None
    control: Control | None
    p_value: float | None
    test: str
    epsilon_lower: EpsilonLower | None
    power: Power
    stronger_than_release: bool = False


def tests_of(attacks: Sequence[object]) -> int:
    """How many tests a release's verdicts are adjusted for, at most: two an attack."""
    return 2 * len(attacks)


def findings_of(
    attack: str,
    evidence: Evidence,
    secrets: Sequence[Secret],
    coins: Coins,
    delta: float,
    seed: int,
    stronger: bool,
    tests: int,
) -> list[Finding]:
    """All findings of one attack on one release.

    delta: δ of the empirical ε. stronger: the release gives samples only, so whatever reads
    probabilities asks more of it than it releases. tests: how many the verdicts adjust for.
    """
    found: list[Finding] = []
    if evidence.hits is not None:
        found += _hits(attack, evidence.hits, secrets, coins, delta, seed, tests)
    if evidence.likelihoods is not None:
        found += _likelihoods(attack, evidence.likelihoods, secrets, coins, seed, stronger, tests)
    return found


def _hits(
    attack: str,
    hits: Hits,
    secrets: Sequence[Secret],
    coins: Coins,
    delta: float,
    seed: int,
    tests: int,
) -> list[Finding]:
    planted, twins = _values(secrets, coins)
    n = len(hits.found)
    named = [_value(secrets[int(i)]) for i in hits.found if i >= 0]
    k, k_twins = sum(v in planted for v in named), sum(v in twins for v in named)
    found, found_twins = len(planted & set(named)), len(twins & set(named))
    chance = _chance(secrets)
    p = None
    if chance is not None and n:
        p = hits_test.p_value(k, hits.repeats, _planted(secrets, coins), chance)
    rate = Finding(
        attack=attack,
        metric="hit_rate",
        access=hits.access.word,
        unit="share of generations",
        interval=clopper_pearson(k, n),
        k=k,
        chance=None if chance is None else min(1.0, chance * len(planted)),
        control=_control(clopper_pearson(k_twins, n), k_twins),
        p_value=p,
        test=f"{attack} hits",
        epsilon_lower=_one_run(hits, secrets, coins, delta, seed) if n else None,
        power=rate_power(n, secrets, coins, delta, tests),
        stronger_than_release=hits.stronger,
    )
    recall = replace(
        rate,
        metric="recall",
        unit="share of planted secrets",
        interval=_conservative(clopper_pearson(found, len(planted) if n else 0)),
        k=found,
        chance=None if chance is None else min(1.0, len(hits.repeats) * chance),
        control=_control(clopper_pearson(found_twins, len(twins) if n else 0), found_twins),
        epsilon_lower=None,
        power=Power(
            smallest_rate=power.smallest_rate(len(planted)) if n else None,
            largest_epsilon=None,
            n=len(planted) if n else 0,
        ),
    )
    return [rate, recall]


def _value(secret: Secret) -> tuple[str, str]:
    return secret.prefix, secret.value


def _values(secrets: Sequence[Secret], coins: Coins) -> tuple[set[tuple[str, str]], ...]:
    """What was planted, and what was drawn for the twins and is not planted by accident."""
    planted = {_value(s) for s in secrets if coins.planted(s)}
    return planted, {_value(s) for s in secrets if coins.twin(s)} - planted


def _planted(secrets: Sequence[Secret], coins: Coins) -> int:
    return sum(coins.planted(s) for s in secrets)


def rate_power(n: int, secrets: Sequence[Secret], coins: Coins, delta: float, tests: int) -> Power:
    """What n generations could show: a rate, and with all guesses right an ε (nats)."""
    if not n:
        return Power(smallest_rate=None, largest_epsilon=None, n=0)
    chance, planted = _chance(secrets), _planted(secrets, coins)
    need = None if chance is None else hits_test.needed(n, planted, chance, LEVEL / tests)
    m = len(coins.present)
    return Power(
        smallest_rate=power.smallest_rate(n),
        detectable_rate=None if need is None else one_sided_upper(need - 1, n),
        largest_epsilon=power.largest_epsilon(m, delta, r=guesses(m)),
        n=n,
    )


def _conservative(interval: Interval) -> Interval:
    """Which secrets n draws find is negatively associated: the binomial interval is too wide."""
    method = "Clopper-Pearson over secrets (conservative: finds are negatively associated)"
    bounds = (interval.value, interval.low, interval.high, interval.n, interval.confidence)
    return Interval(*bounds, method)


def _likelihoods(
    attack: str,
    likelihoods: Likelihoods,
    secrets: Sequence[Secret],
    coins: Coins,
    seed: int,
    stronger: bool,
    tests: int,
) -> list[Finding]:
    import numpy as np

    read = ~np.isnan(likelihoods.log_probs)
    # not read: 0, and left out of `planted` and `twins`; rounding may pass 1 by a hair
    p = np.where(read, np.minimum(np.exp(likelihoods.log_probs), 1.0), 0.0)
    planted = np.array([coins.planted(s) for s in secrets]) & read
    twins = np.array([coins.twin(s) for s in secrets]) & read
    chance = _chance(secrets)
    p_value = _rank_test(likelihoods.log_probs[planted], likelihoods.log_probs[twins], seed, tests)
    found = []
    for metric, values, by_chance, unit in (
        ("probability", p, chance, "probability of a planted secret per generation"),
        (
            "discoverable",
            discoverable.discovered(p, DRAWS),
            None if chance is None else float(discoverable.discovered(chance, DRAWS)),
            f"share of planted secrets expected in {DRAWS} generations",
        ),
    ):
        generator = stream(seed, attack, metric, "bootstrap")
        interval = _mean(values[planted], generator)
        found.append(
            Finding(
                attack=attack,
                metric=metric,
                access=likelihoods.access.word,
                unit=unit,
                interval=interval,
                k=None,
                chance=by_chance,
                control=_control(_mean(values[twins], generator), None),
                p_value=p_value,
                test=f"{attack} likelihoods",
                epsilon_lower=None,
                power=Power(smallest_rate=None, largest_epsilon=None, n=int(planted.sum())),
                stronger_than_release=stronger,
            )
        )
    return found


def _mean(values: np.ndarray, generator: np.random.Generator) -> Interval:
    return bootstrap_ratio(values, [1.0] * len(values), generator)


def _rank_test(planted: np.ndarray, twins: np.ndarray, seed: int, tests: int) -> float | None:
    """None where so few values could not give a small enough p-value whatever they were."""
    if not len(planted) or not len(twins):
        return None
    if rank_test.smallest(len(planted), len(twins)) >= LEVEL / tests:
        return None
    return rank_test.p_value(planted, twins, stream(seed, "rank test"))


def _chance(secrets: Sequence[Secret]) -> float | None:
    """1/|R| where all secrets are uniform on spaces of one size."""
    sizes = {None if s.space is None else s.space.size for s in secrets}
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else 1 / size


def _one_run(
    hits: Hits, secrets: Sequence[Secret], coins: Coins, delta: float, seed: int
) -> EpsilonLower:
    """r guesses, fixed beforehand: "in" for the third of the users whose candidates were generated
    most often, "out" for the third that was least, ties by lot. As many of one kind as of the
    other, so that coins which fell unevenly are not mistaken for a leak.
    """
    owners = list(coins.present)
    often = dict.fromkeys(owners, 0)
    for i in hits.found:
        if i >= 0:
            often[secrets[int(i)].owner] += 1
    lot = stream(seed, "one run", "ties").permutation(len(owners))
    ranked = sorted(range(len(owners)), key=lambda j: (-often[owners[j]], lot[j]))
    m, third = len(owners), guesses(len(owners)) // 2
    right = sum(coins.present[owners[j]] for j in ranked[:third])
    right += sum(not coins.present[owners[j]] for j in ranked[m - third :])
    return EpsilonLower(
        value=one_run.epsilon_lower(m, 2 * third, right, delta),
        method="one_run",
        hypothesis="none",
        unit="user",
        relation="add_or_remove",
        delta=delta,
        m=m,
        r=2 * third,
        v=right,
    )


def guesses(coins: int) -> int:
    """How many guesses are made over so many coins: two thirds of them, an even number."""
    return 2 * max(1, coins // 3)


def _control(interval: Interval, k: int | None) -> Control | None:
    if interval.value is None:
        return None
    return Control(value=interval.value, ci=interval.ci, k=k, n=interval.n)
