"""Reach: whether a leak of the size that matters would have been called a leak."""

from __future__ import annotations

from collections.abc import Mapping

from audit.core.reach import Reach
from audit.core.terms import Shown
from audit.findings.case import Case
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement, Power
from audit.results.silence import Link
from audit.results.words import percent, percent_at_most
from audit.statistics import leak_power

_USUAL = Reach()
_EFFECTS = {_USUAL.hits: "one person in four", _USUAL.scores: "one person in three"}


def link(measurement: Measurement, tests: int) -> Link:
    """State what a measurement would have found. tests: in the family it is adjusted for."""
    n, found = measurement.n, measurement.power.found
    if measurement.p_value is None or measurement.least_p * tests >= LEVEL:
        why = measurement.untested or "Too little was measured for any test."
        return Link(state=Shown.NOT_SHOWN, by=why, n=n)
    if found is None:
        return Link(state=Shown.NOT_SHOWN, by="What it would have found is not known.", n=n)
    effect = _effect(measurement.power)
    needed = measurement.power.needed or _USUAL.power
    if found < needed:
        rate = percent_at_most(found) if found else "0 %"
        why = (
            f"If {effect} leaked wholly, it would be called a leak in {rate} of such runs only; "
            "plant more people, or ask more often."
        )
        return Link(state=Shown.NOT_SHOWN, by=why, n=n)
    return Link(
        state=Shown.SHOWN,
        by=f"If {effect} leaked wholly, it would have been found in {runs(needed)} such runs.",
        n=n,
    )


def _effect(power: Power) -> str:
    share = 0.0 if power.effect is None else power.effect
    words = (word for known, word in _EFFECTS.items() if abs(known - share) < 1e-5)
    return next(words, f"{percent_at_most(share)} of the people")


def runs(needed: float) -> str:
    """Name the share of runs that a power is."""
    return "4 of 5" if needed == _USUAL.power else f"{percent(needed)} of"


def _of(effect: float, found: float, case: Case) -> dict[str, float]:
    """Return the fields of a `Power`."""
    needed = {} if case.reach.power == _USUAL.power else {"needed": case.reach.power}
    return {"effect": effect, "found": found, **needed}


def of_hits(tries: int, needed: int | None, sampled: bool, case: Case) -> dict[str, float]:
    """Compute the reach of hits. needed: different planted values for a leak."""
    planted = int(case.planted.sum())
    power = leak_power.of_hits if sampled else leak_power.of_list
    return _of(case.reach.hits, power(tries, planted, needed, case.reach.hits), case)


def of_mentions(tries: int, often: Mapping[str, float], case: Case) -> dict[str, float]:
    """Compute the reach of people who are named in generations: a score of each, their number."""
    share = case.reach.scores * leak_power.comes_up(tries, int(case.planted.sum()))
    return _of_sums(often, share, case)


def of_successes(won: Mapping[str, float], case: Case) -> dict[str, float]:
    """Compute the reach of one try per planted secret: a score of each person, 0 or 1."""
    return _of_sums(won, case.reach.scores, case)


def _of_sums(often: Mapping[str, float], share: float, case: Case) -> dict[str, float]:
    others = [n for owner, n in often.items() if not case.coins.present[owner]]
    people = len(often) - len(others)
    found = leak_power.of_sums(others, people, share, LEVEL / case.tests)
    return _of(case.reach.scores, found, case)


def of_scores(planted: int, twins: int, top: bool, named: bool, case: Case) -> dict[str, float]:
    """Compute the reach of a score: of the strongest of its tests.

    top: whether it has a top test. named: whether its low end has a test.
    """
    sizes = (planted, twins, case.reach.scores, LEVEL / case.tests)
    powers = [leak_power.of_rank_test(*sizes)]
    powers += [leak_power.of_top_test(*sizes)] if top else []
    powers += [leak_power.of_low_end(*sizes)] if named else []
    return _of(case.reach.scores, max(powers), case)


def of_ranks(ranks: int, size: int, case: Case) -> dict[str, float]:
    """Compute the reach of ranks: of the test of the best one."""
    share, level = case.reach.scores, LEVEL / case.tests
    return _of(share, leak_power.of_first_rank(ranks, size, share, level), case)


def of_choice(people: int, case: Case) -> dict[str, float]:
    """Compute the reach of the second coin."""
    share = case.reach.scores
    return _of(share, leak_power.of_choice(people, share, LEVEL / case.tests), case)
