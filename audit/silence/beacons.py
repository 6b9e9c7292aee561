"""Beacons: values that many invented users wrote, and what of them a release lets be seen.

A beacon's value is uniform on a space of at least 1,000 values and always planted. So under "the
release does not depend on it" its place among other values is uniform, and no text holds it more
often than any other value. Everything here is a pure function of scores and generated texts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from audit.core.secret import Space
from audit.findings.shows import not_shown, shown
from audit.results.silence import Link
from audit.results.words import count
from audit.statistics.fisher import combined_p_value

OTHERS = 999  # values that a beacon's is compared with: draws of its own for each, `Draw.others`


@dataclass(frozen=True)
class Rank:
    """Place of a beacon's value among others: `rank` of `of`, 1 = highest score."""

    rank: int
    of: int

    @property
    def p_value(self) -> float:
        return self.rank / self.of


@dataclass(frozen=True)
class Sighting:
    """Evidence for beacons that so many users wrote. p_value: of "they are not learnt".

    found: what a measure does with their values, as a verb with its object; "": no measure.
    """

    users: int
    p_value: float
    found: str = ""


def rank(own: float, against: ArrayLike) -> Rank:
    """Rank the score of a beacon's value among those of others; ties and NaN stand before it.

    own: NaN and −∞, where nothing was measured, are last: nothing is below them. against: (k,).
    """
    scores = np.asarray(against, dtype=float)
    return Rank(1 + int((~(scores < own)).sum()), scores.size + 1)


def ranked(users: int, ranks: Sequence[Rank]) -> Sighting:
    """Test the beacons of one tier by the ranks of their values, independent of each other.

    Of two values p = x(1 − ln x), where x is the product of both, by Fisher.
    """
    p_value = combined_p_value([one.p_value for one in ranks])
    what = f"{count(len(ranks), 'value')} that {users:,} users wrote"
    if all(one.rank == 1 for one in ranks):
        return Sighting(users, p_value, f"finds {what}")
    places = " and ".join(f"{one.rank:,} of {one.of:,}" for one in ranks)
    return Sighting(users, p_value, f"ranks {what} at {places}")


def generated(users: int, values: Sequence[str], space: Space, texts: Iterable[str]) -> Sighting:
    """Test the beacons of one tier by generated texts, in which their values come up or do not.

    Two beacons may have one value, which then counts twice.
    """
    held = values_in(space, texts)
    return hit(users, sum(value in held for value in values), len(values), len(held), space)


def hit(users: int, hits: int, beacons: int, tried: int, space: Space) -> Sighting:
    """Test the beacons of one tier, of which `hits` are among `tried` different values."""
    what = f"{hits} of {count(beacons, 'value')} that {users:,} users wrote"
    return Sighting(users, by_chance(hits, beacons, tried, space), f"finds {what}")


def by_chance(hits: int, planted: int, tried: int, space: Space) -> float:
    """Bound the chance that so many planted values are among `tried` different ones of a space.

    Of D values that do not depend on it, one is a given planted one with probability D/S.
    """
    chance = min(1.0, tried / space.size)
    return min(1.0, math.comb(planted, hits) * chance**hits)


def values_in(space: Space, texts: Iterable[str]) -> set[str]:
    """List every value of a space that stands anywhere in texts."""
    return set[str]().union(*(contained(space, text) for text in texts))


def contained(space: Space, text: str) -> set[str]:
    """List every value of a space that stands anywhere in a text, within longer ones, too."""
    places = [(frozenset(place), sorted(set(map(len, place)))) for place in space.symbols]
    ends = {(start, start) for start in range(len(text))}  # where a value began, and got to
    for symbols, lengths in places:
        ends = {
            (start, end + n)
            for start, end in ends
            for n in lengths
            if text[end : end + n] in symbols
        }
    return {text[start:end] for start, end in ends}


def smallest_seen(tiers: Sequence[Sighting], level: float) -> Sighting | None:
    """Test tiers from the largest down until one is not seen; return the last that was seen.

    level: of each, and so of all: a smaller tier is tested only where the larger ones were seen.
    """
    down = sorted(tiers, key=lambda tier: tier.users, reverse=True)
    seen = list(itertools.takewhile(lambda tier: tier.p_value <= level, down))
    return seen[-1] if seen else None


def link(tiers: Sequence[Sighting], level: float, protected: bool, lost: str = "") -> Link:
    """Show the sight of a measure by its beacons, with the smallest tier that it sees.

    protected: whether the release has a guarantee for users, which may hide what few of them share.
    lost: which copies are known not to have been trained on, as a sentence.
    """
    if not tiers:
        return not_shown("no beacons were planted")
    seen = smallest_seen(tiers, level)
    if seen is not None:
        return shown(f"this measure {seen.found} (p = {seen.p_value:.1g})", seen.users)
    most = max(tier.users for tier in tiers)
    if lost:
        why = f"{lost}; this measure does not see even a value of {most:,} users"
    elif protected:
        why = (
            f"under this protection not even a value of {most:,} users is visible; that is what it "
            "promises, and no measurement of single users"
        )
    else:
        why = f"this measure does not see even a value of {most:,} users"
    return not_shown(why, most)


def tries(coin_tries: int, coin_values: int, beacon_values: int, leaking: Fraction) -> int:
    """Compute how often the sentence of beacons is asked, to ask each as often as a leaking coin's.

    coin_tries: of the coins' sentence, after which `coin_values` are planted. leaking: the smallest
    share of them that must be noticed.
    """
    return math.ceil(Fraction(coin_tries * beacon_values) / (leaking * coin_values))
