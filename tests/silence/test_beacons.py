"""Beacons: every level by enumeration of all values and draws, and what is printed of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from audit.core.secret import Draw, Space, digits
from audit.core.terms import Shown
from audit.silence.beacons import (
    Rank,
    Sighting,
    contained,
    generated,
    link,
    rank,
    ranked,
    smallest_seen,
    tries,
)

SIX = Space((tuple("ab"), tuple("123")))
VALUES = ["".join(one) for one in itertools.product(*SIX.symbols)]
SCORES = {
    "distinct": dict(zip(VALUES, (0.5, -1.0, 2.0, 3.0, -7.0, 0.0), strict=True)),
    "tied": dict(zip(VALUES, (1.0, 1.0, 1.0, 3.0, 3.0, 0.0), strict=True)),
    "unread": dict(zip(VALUES, (1.0, math.nan, -math.inf, 3.0, math.nan, 0.0), strict=True)),
}


def draws(value: str, size: int) -> list[tuple[str, ...]]:
    return list(itertools.combinations([v for v in VALUES if v != value], size))


def share(p_values: Sequence[float] | np.ndarray, level: float) -> float:
    return float(np.mean(np.asarray(p_values) <= level + 1e-12))


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_rank_keeps_every_level(scores: dict[str, float], size: int) -> None:
    """All values are as likely, and so are all draws of others."""
    ranks = {v: [rank(scores[v], [scores[o] for o in some]) for some in draws(v, size)]
             for v in VALUES}  # fmt: skip
    one = [r.p_value for v in VALUES for r in ranks[v]]
    assert all(share(one, level) <= level + 1e-12 for level in one)
    if scores is SCORES["distinct"]:  # exact: the place is uniform
        for place in range(1, size + 2):
            assert share(one, place / (size + 1)) == pytest.approx(place / (size + 1))
    every = [r for v in VALUES for r in ranks[v]]
    combined = {pair: ranked(64, pair).p_value for pair in itertools.product(set(every), repeat=2)}
    two = np.array([combined[pair] for pair in itertools.product(every, repeat=2)])
    assert all(share(two, level) <= level + 1e-12 for level in combined.values())


def test_two_values_combine_by_their_product() -> None:
    x = 3 * 9 / 2000**2
    tier = ranked(256, [Rank(3, 2000), Rank(9, 2000)])
    assert tier.p_value == pytest.approx(x * (1 - math.log(x)))
    assert tier.found == "ranks 2 values that 256 users wrote at 3 of 2,000 and 9 of 2,000"
    assert ranked(16, [Rank(1, 2000)] * 2).found == "finds 2 values that 16 users wrote"
    assert ranked(16, [Rank(1, 2000), Rank(2, 2000)]).found.startswith("ranks")


@pytest.mark.parametrize("own", [math.nan, -math.inf])
def test_unmeasured_beacon_is_last(own: float) -> None:
    assert rank(own, [-math.inf, 0.0, math.nan]).p_value == 1.0
    assert rank(1.0, [0.0, math.nan, 1.0]) == Rank(3, 4)


@pytest.mark.parametrize("most", [3, 5, 9])
def test_others_are_distinct_and_leave_value_out(most: int) -> None:
    drawn = Draw(SIX, "a2").others(most, np.random.default_rng(1))
    assert len(set(drawn)) == len(drawn) == min(most, 5)
    assert set(drawn) < set(VALUES) and "a2" not in drawn


def test_others_are_drawn_evenly() -> None:
    draw = np.random.default_rng(2)
    counts = np.zeros(6)
    for _ in range(2000):
        counts[[VALUES.index(v) for v in Draw(SIX, "b3").others(2, draw)]] += 1
    assert counts[5] == 0
    assert np.abs(counts[:5] - 800).max() < 4 * math.sqrt(2000 * 0.4 * 0.6)


@pytest.mark.parametrize("text", ["", "a1", "a1 b2", "a1 xa1 a2b3", "b1a1a2a3b2b3"])
def test_generations_keep_every_level(text: str) -> None:
    pairs = itertools.product(VALUES, repeat=2)
    p_values = [generated(16, pair, SIX, [text]).p_value for pair in pairs]
    assert all(share(p_values, level) <= level + 1e-12 for level in p_values)


def test_generations_count_all_values_anywhere() -> None:
    codes = digits(3)
    texts = ["code 12345!", "99"]  # 123, 234 and 345
    assert contained(codes, texts[0]) == {"123", "234", "345"}
    names = Space((("Ann", "Anna"), (" Lee", "a Li")))
    assert contained(names, "Mr Anna Lee, Anna Li") == {"Anna Lee", "Anna Li"}
    one = generated(64, ["234", "777"], codes, texts)
    assert one.p_value == pytest.approx(2 * 3 / 1000)
    assert one.found == "finds 1 of 2 values that 64 users wrote"
    both = generated(64, ["234", "345"], codes, texts)
    assert both.p_value == pytest.approx((3 / 1000) ** 2)
    assert generated(64, ["000", "777"], codes, texts).p_value == 1.0
    assert generated(64, ["9", "9"], digits(1), ["9123"]).p_value == pytest.approx(0.16)


TIERS = [
    Sighting(64, 0.0004, "finds x"),
    Sighting(256, 1e-5, "finds y"),
    Sighting(16, 1e-9, "finds z"),
]


def test_tiers_are_tested_until_one_is_not_seen() -> None:
    assert smallest_seen(TIERS, 0.001) == TIERS[2]
    assert smallest_seen(TIERS, 0.0001) == TIERS[1]  # 16 is not tested behind 64
    assert smallest_seen(TIERS, 1e-6) is None


def test_link_names_smallest_tier_seen() -> None:
    seen = link(TIERS, 0.0001, protected=True)
    assert (seen.state, seen.n) == (Shown.SHOWN, 256)
    assert seen.by == "this measure finds y (p = 1e-05)"
    hidden = link(TIERS, 1e-6, protected=True)
    assert (hidden.state, hidden.n) == (Shown.NOT_SHOWN, 256)
    assert hidden.by == (
        "under this protection not even a value of 256 users is visible; that is what it promises, "
        "and no measurement of single users"
    )
    assert "promises" not in link(TIERS, 1e-6, protected=False).by
    assert link([], 0.001, protected=True).state == Shown.NOT_SHOWN


def test_tries_give_a_beacon_as_many_as_a_leaking_coin() -> None:
    # 100 tries, of 50 codes every fourth leaks: 8 tries each; so 16 of two beacons
    assert tries(100, 50, 2, Fraction(1, 4)) == 16
    assert tries(100, 49, 2, Fraction(1, 4)) == 17
