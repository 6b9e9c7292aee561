"""What each planted secret did, in the order of planting: by hand, one kind of evidence each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from audit.core.evidence import Evidence, Hits, Scores, Successes
from audit.core.secret import Secret, digits
from audit.findings import measurements_of
from audit.results.measurement import Measurement
from tests.findings.joined import NAN, case, pairs

PRESENT, SLOTS = (True, False, True, True), (0, 0, 1, 0)
FOUR = pairs([("10", "11"), ("20", "21"), ("30", "31"), ("40", "41")], digits(2))
SHARED = pairs([("10", "11"), ("20", "21"), ("10", "31")], digits(2))


def named(
    metric: str, evidence: Evidence, secrets: Sequence[Secret] = FOUR,
    present: Sequence[bool] = PRESENT, slots: Sequence[int] = SLOTS,
) -> Measurement:  # fmt: skip
    """Planted are 10, 31 and 40, unless other coins are given."""
    of = case(secrets, present, slots)
    return next(f for f in measurements_of([evidence], of) if f.metric.endswith(metric))


def hits(*found: int) -> Hits:
    return Hits(np.array(found, dtype=np.int64), (1,) * len(set(found)), kind="code")


def verbatim(*won: float) -> Successes:
    return Successes("verbatim", "share", np.array(won), None)


@pytest.mark.parametrize(
    ("metric", "evidence", "outcomes", "counts"),
    [
        ("recall", hits(5, 0, 0, 2, -1), "110", (2, 3)),
        ("verbatim", verbatim(0, 1, 1, 1, 0, 1, NAN, 1), "01-", (1, 2)),
        ("choice", Scores("loss", "span", np.array([2.0, 1, 9, 9, 5, 4, NAN, 1]), kind="code"),
         "10-", (1, 2)),
    ],
)  # fmt: skip
def test_outcomes_are_of_each_planted_secret(
    metric: str, evidence: Evidence, outcomes: str, counts: tuple[int, int]
) -> None:
    one = named(metric, evidence)
    assert (one.outcomes, (one.k, one.n)) == (outcomes, counts)


def test_rate_of_generations_has_no_outcomes() -> None:
    assert named("hit_rate", hits(5, 0)).outcomes is None


def test_value_of_two_owners_is_one_try() -> None:
    one = named("recall", hits(0), SHARED, (True, True, True), (0, 0, 0))
    assert (one.outcomes, one.k) == ("10-", 1)


@pytest.mark.parametrize(("flip", "place"), [(0, 0), (2, 1), (3, 2)])
def test_coin_takes_its_owners_place_away_alone(flip: int, place: int) -> None:
    evidence = verbatim(1, 0, 1, 0, 0, 1, 1, 0)
    whole = named("verbatim", evidence).outcomes or ""
    present = [p and i != flip for i, p in enumerate(PRESENT)]
    assert named("verbatim", evidence, FOUR, present).outcomes == whole[:place] + whole[place + 1 :]
