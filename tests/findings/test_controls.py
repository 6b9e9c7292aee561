"""Sight of own trainings: the same measure of a positive control with at least as much to see."""

from __future__ import annotations

from typing import Any

import pytest

from audit.core.guarantee import no_guarantee
from audit.core.terms import Shown
from audit.findings.controls import BY_CONTROL, Named, leaks_beside, leaks_in, sight_by
from audit.findings.rejections import Family
from audit.findings.shows import Shows, not_shown, shown
from audit.results.measurement import Control, Measurement
from audit.results.schema import GuaranteeResult
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from tests.findings.by_hand import LEAK, NONE, by_holm, finding

CLAIM = GuaranteeResult.of(no_guarantee("none"))
NAME = ("extraction", "hit_rate")


def loud(one: Measurement) -> list[Measurement]:
    return by_holm([one], CLAIM, Family(1, 1))


def area(members: int, others: int) -> Interval:
    return Interval(0.7, 0.6, 0.8, members + others, 0.95, "test", sizes=(members, others))


@pytest.mark.parametrize(
    ("control", "audited", "why"),
    [
        ({}, {}, ""),
        ({}, {"interval": clopper_pearson(0, 99), "k": 0}, ""),
        ({}, {"interval": clopper_pearson(0, 101), "k": 0}, "100 observations, fewer than the 101"),
        ({"access": "score"}, {}, "score access, not with generate"),
        ({"interval": area(60, 60), "k": None}, {"interval": area(50, 60), "k": None}, ""),
        ({"interval": area(50, 71), "k": None}, {"interval": area(60, 60), "k": None},
         "50 people in, fewer than the 60"),
        ({"interval": area(71, 50), "k": None}, {"interval": area(60, 60), "k": None},
         "50 people out, fewer than the 60"),
        ({"control": Control(value=0.0, ci=(0.0, 0.1), k=0, n=40)}, {},
         "40 observations of people out, fewer than the 100"),
    ],
)  # fmt: skip
def test_control_needs_as_much_to_see(
    control: dict[str, Any], audited: dict[str, Any], why: str
) -> None:
    leaks = leaks_in(loud(finding(LEAK, **control)), CLAIM, Family(1, 1))
    assert len(leaks) == 1
    link = sight_by(leaks, [finding(NONE, **audited)])[NAME]
    assert link.state == (Shown.NOT_SHOWN if why else Shown.SHOWN)
    assert why in link.by and link.by.startswith(BY_CONTROL[:-1]) and link.by.endswith(".")


def test_quiet_control_shows_nothing() -> None:
    quiet = leaks_in(loud(finding(NONE, None)), CLAIM, Family(1, 1))
    assert sight_by(quiet, [finding(NONE)]) == {}
    other = leaks_in(loud(finding(LEAK, metric="recall")), CLAIM, Family(1, 1))
    assert NAME not in sight_by(other, [finding(NONE)])  # another measure shows nothing of this


def test_controls_are_none_and_own_unprotected_models() -> None:
    run = [
        Named("submix", "audited", False),
        Named("mixture", "positive control of submix", True),
        Named("redaction", "audited", False),
        Named("none", "audited", False),
        Named("none", "positive control", True),
    ]
    asked: list[int] = []

    def leaks(place: int) -> list[Any]:
        asked.append(place)
        return []

    for place, expected in ((0, [1, 4]), (2, [4])):
        asked.clear()
        assert leaks_beside(place, run, leaks) == []
        assert asked == expected
    assert leaks_beside(0, run[:3], leaks) is None


def test_nothing_leaks_beside_a_model_that_was_trained_elsewhere() -> None:
    """A model that is trained here has other weights: what leaks of it shows nothing of those."""
    run = [Named("as_is", "audited", False), Named("none", "positive control", True)]
    control: list[Any] = ["a leak"]
    assert leaks_beside(0, run, lambda place: control) == []
    assert leaks_beside(0, [Named("dp_sgd", "audited", False), run[1]], lambda place: control)


def test_what_a_copy_of_the_weights_shows_stands_whatever_a_control_shows() -> None:
    spike, control = not_shown("blind in a copy"), shown(BY_CONTROL, 9)
    assert Shows(sight={NAME: spike}).beside({NAME: control}).sight[NAME] == spike
    assert Shows(sight={}).beside({NAME: control}).sight[NAME] == control
