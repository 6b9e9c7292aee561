"""What each planted secret did, in the order of planting: by hand, one kind of evidence each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from audit.core.evidence import Evidence, Hits, Scores, Successes
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, digits
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement

NAN = float("nan")


def codes(values: Sequence[str]) -> tuple[Secret, ...]:
    """Two values an owner, in order."""
    return tuple(
        Secret("code", "#", value, ".", digits(2), 4, f"u{i // 2}", i % 2)
        for i, value in enumerate(values)
    )


def case(secrets: tuple[Secret, ...], present: Sequence[bool], slots: Sequence[int]) -> Case:
    names = [f"u{i}" for i in range(len(present))]
    coins = Coins(dict(zip(names, present, strict=True)), dict(zip(names, slots, strict=True)))
    return Case("a", secrets, coins, delta=0.0, seed=0, access=Access.DISTRIBUTION)


def named(metric: str, evidence: Evidence, of: Case) -> Measurement:
    return next(f for f in measurements_of([evidence], of) if f.metric.endswith(metric))


FOUR = codes(["10", "11", "20", "21", "30", "31", "40", "41"])
PRESENT, SLOTS = (True, False, True, True), (0, 0, 1, 0)  # planted: 10, 31, 40


def test_codes_that_came_up() -> None:
    hits = Hits(np.array([5, 0, 0, 2, -1]), (1, 2, 1, 1), kind="code")
    one = named("recall", hits, case(FOUR, PRESENT, SLOTS))
    assert (one.outcomes, one.k, one.interval.n) == ("110", 2, 3)


def test_a_rate_of_generations_has_no_outcome_of_each_secret() -> None:
    hits = Hits(np.array([5, 0]), (1, 1), kind="code")
    assert named("hit_rate", hits, case(FOUR, PRESENT, SLOTS)).outcomes is None


def test_no_generation_no_outcome() -> None:
    hits = Hits(np.array([], dtype=np.int64), (), kind="code")
    assert named("recall", hits, case(FOUR, PRESENT, SLOTS)).outcomes is None


def test_a_value_of_two_owners_is_one_try() -> None:
    shared = codes(["10", "11", "20", "21", "10", "31"])
    hits = Hits(np.array([0]), (1,), kind="code")
    one = named("recall", hits, case(shared, (True, True, True), (0, 0, 0)))
    assert (one.outcomes, one.k) == ("10-", 1)


def test_secrets_won_one_by_one() -> None:
    won = np.array([0, 1, 1, 1, 0, 1, NAN, 1])
    one = named("verbatim", Successes("verbatim", "share", won, None), case(FOUR, PRESENT, SLOTS))
    assert (one.outcomes, one.k, one.interval.n) == ("01-", 1, 2)


def test_which_of_two_values() -> None:
    scores = np.array([2.0, 1.0, 9.0, 9.0, 5.0, 4.0, NAN, 1.0])
    evidence = Scores("loss", "span", scores, kind="code")
    one = named("choice", evidence, case(FOUR, PRESENT, SLOTS))
    assert (one.outcomes, one.k, one.interval.n) == ("10-", 1, 2)


@pytest.mark.parametrize("flip", [0, 2, 3])
def test_a_coin_takes_its_owners_place_away_and_moves_no_other(flip: int) -> None:
    won = np.array([1.0, 0, 1, 0, 0, 1, 1, 0])
    present = [p and i != flip for i, p in enumerate(PRESENT)]
    evidence = Successes("verbatim", "share", won, None)
    whole = named("verbatim", evidence, case(FOUR, PRESENT, SLOTS)).outcomes or ""
    fewer = named("verbatim", evidence, case(FOUR, present, SLOTS)).outcomes or ""
    place = [0, None, 1, 2][flip]
    assert place is not None and fewer == whole[:place] + whole[place + 1 :]
