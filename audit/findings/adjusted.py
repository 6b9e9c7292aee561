"""Adjusts the tests of one release for each other, before anything is judged.

Tests of coins are adjusted together by tossing the coins again, so that tests which agree cost
little. Tests with another null, such as hits among uniform values, are adjusted by Holm. Each of
the two groups gets its share of the level by its number of tests, fixed before any coin. Where
people are asked about lot by lot, bets on their coins have one half of the level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import NamedTuple

from audit.core.guarantee import Guarantee
from audit.core.randomness import stream
from audit.findings import bets
from audit.findings.guesses import name_of, test_claim
from audit.findings.rejections import Family, test_of
from audit.results.joined import LEVEL, leak_p
from audit.results.measurement import Measurement
from audit.statistics import holm
from audit.statistics.retossed import Crossed, toss_again, tosses_for
from audit.statistics.tossed import Coins as Heads
from audit.statistics.tossed import Tossed


class Adjusted(NamedTuple):
    """One look at coins, of perhaps several: its measurements, with adjusted p-values.

    crossed: the tosses that have crossed its limit or an earlier one.
    """

    measurements: list[Measurement]
    crossed: Crossed


def adjusted(
    measurements: Sequence[Measurement],
    tests: Mapping[str, Tossed],
    heads: Heads,
    guarantee: Guarantee,
    family: Family,
    seed: int,
    before: Crossed | None = None,
) -> Adjusted:
    """Adjust the p-values of the tests of one release, at one look.

    tests: those that are functions of scores and coins, by name. heads: (users,), bool.
    before: what earlier looks at the same coins have crossed. Raises ValueError unless these tosses
        are as many as those of this look.
    """
    if family.lots == 1:
        return _together(measurements, tests, heads, guarantee, family, seed, before)
    won = [m for m in measurements if bets.is_bet(m) and m.value is not None]
    p_of, rest = bets.adjusted(won, family.bets), [m for m in measurements if not bets.is_bet(m)]
    done = {test_of(m): _of_bet(m, p_of[test_of(m)], family.looks) for m in won}
    if bets.stopped(list(done.values()), family.lots):
        rest = list(map(bets.untested, rest))
    look = _together(rest, tests, heads, guarantee, family, seed, before)
    others = iter(look.measurements)
    every = [done.get(test_of(m), m) if bets.is_bet(m) else next(others) for m in measurements]
    return look._replace(measurements=every)


def _of_bet(bet: Measurement, p: float, looks: int) -> Measurement:
    """Return bets with their p-value among all bets, which are one of so many looks."""
    return bet.changed(adjusted_p=min(1.0, looks * p), look_p=p)


def _together(
    measurements: Sequence[Measurement],
    tests: Mapping[str, Tossed],
    heads: Heads,
    guarantee: Guarantee,
    family: Family,
    seed: int,
    before: Crossed | None,
) -> Adjusted:
    p_of = {test_of(m): m.p_value for m in measurements if m.p_value is not None}
    guesses = {name_of(test_of(m)) for m in measurements if test_claim(m, guarantee)}
    run = {name: test for name, test in tests.items() if name in p_of or name in guesses}
    others = {name: p for name, p in p_of.items() if name not in tests}
    every = max(family.tests, family.tossed, len(run))
    again = stream(seed, "findings", "tosses")
    tossed = toss_again(list(run.values()), heads, again, tosses_for(every), before)
    together = dict(zip(run, map(float, tossed.p_values), strict=True))
    crossed = tossed.crossed(LEVEL / _factor(run, family), before)
    alone = _in_family(together, others, family.of_one_look)
    if family.looks == 1:
        return Adjusted([_with(m, alone) for m in measurements], crossed)
    so_far = dict(zip(run, map(float, tossed.so_far / crossed.looks), strict=True))
    found = _in_family(so_far, others, family)
    done = (_with(m, found).changed(look_p=leak_p(_with(m, alone))) for m in measurements)
    return Adjusted(list(done), crossed)


def _with(measurement: Measurement, found: Mapping[str, float]) -> Measurement:
    name, bounded = test_of(measurement), measurement.epsilon_lower is not None
    return measurement.changed(
        adjusted_p=None if measurement.p_value is None else found.get(name),
        guesses_p=found.get(name_of(name)) if bounded else None,
    )


def _factor(run: Sized, family: Family) -> float:
    """Return by how much the share of the tests of coins is smaller than the whole level."""
    size = max(1, family.tossed, len(run))
    return max(family.tests, size) / size


def _in_family(
    together: Mapping[str, float], others: Mapping[str, float], family: Family
) -> dict[str, float]:
    """Adjust for the whole family. together: tests of coins, adjusted for each other."""
    factor = _factor(together, family)
    shared = {name: min(1.0, p * factor) for name, p in together.items()}
    return {**shared, **_by_holm(others, family)}


def _by_holm(p_values: Mapping[str, float], family: Family) -> dict[str, float]:
    size = max(family.tests - family.tossed, len(p_values))
    every = max(family.tests, size)
    not_run = [1.0] * (size - len(p_values))
    adjusted = holm.adjusted_p_values([*p_values.values(), *not_run])
    return {
        name: min(1.0, float(p) * every / size) for name, p in zip(p_values, adjusted, strict=False)
    }
