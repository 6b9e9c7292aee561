"""Several audits of the same coins share one level: whoever stops, errs at most that often."""

from __future__ import annotations

import numpy as np
import pytest

from audit import findings
from audit.core.guarantee import no_guarantee
from audit.findings.adjusted import adjusted
from audit.findings.rejections import Family
from audit.findings.shows import Shows
from audit.findings.verdict import judge
from audit.results.joined import GREY, LEVEL, is_grey
from audit.scores.given import Sides
from audit.scores.judged import Model
from audit.statistics.retossed import Crossed

LOOKS, PEOPLE = 10, 60
CLAIM = no_guarantee("tests")


SCORES = np.random.default_rng(1).normal(size=PEOPLE)


def seen() -> Model:
    return Model(Sides(SCORES[:30], SCORES[30:]), CLAIM, 1e-5, 0)


def p_values(
    scores: np.ndarray, family: Family, seed: int, which: str = "adjusted_p"
) -> dict[str, float]:
    """Adjusted p-values of one look at people of whom the first half is in."""
    half = len(scores) // 2
    model = Model(Sides(scores[:half], scores[half:]), CLAIM, 1e-5, seed)
    case, evidence = model.case, [model.evidence]
    found = findings.measurements_of(evidence, case)
    done = adjusted(
        found, findings.tests_of(evidence, case), case.heads, model.guarantee, family, seed
    )
    each = {m.metric: getattr(m, which) for m in done.measurements}
    return {metric: p for metric, p in each.items() if p is not None}


def family_of_one_look() -> Family:
    case = Model(Sides(np.zeros(30), np.ones(30)), CLAIM, 1e-5, 0).case
    return Family(case.tests, case.claim_tests)


@pytest.mark.parametrize("tossed", [0, 3])
def test_p_values_of_one_look_are_multiplied_by_the_looks(tossed: int) -> None:
    draws = np.random.default_rng(1)
    scores = draws.normal(size=PEOPLE) + np.repeat([0.9, 0.0], PEOPLE // 2)
    one = Family(8, 2, tossed)
    before, after = (p_values(scores, size, 3) for size in (one, one.over(LOOKS)))
    assert before.keys() == after.keys() and min(before.values()) < LEVEL
    for name, p in before.items():
        tossing = 0.15 * LOOKS * p + 1e-9  # the tosses are others, since smaller p need more
        assert after[name] >= min(1.0, LOOKS * p - tossing), name


def test_family_of_one_look_is_the_family() -> None:
    assert Family(8, 2, 3).over(1) == Family(8, 2, 3)
    assert Family(8, 2, 3).over(4) == Family(32, 8, 3, looks=4)
    assert Family(8, 2, 3).over(4).of_one_look == Family(8, 2, 3)


def test_other_looks_make_no_silence_of_what_one_look_would_not() -> None:
    """A p-value that is no leak for want of level is grey where it would be without the others."""
    quiet = findings.measurements_of([seen().evidence], seen().case)[0]
    for look_p, grey in ((0.01, True), (GREY, True), (0.2, False)):
        one = quiet.changed(adjusted_p=min(1.0, LOOKS * look_p), guesses_p=None, look_p=look_p)
        assert is_grey(one) is grey
        judged = judge([one], CLAIM, Shows(), Family(8, 2, 3).over(LOOKS))[0]
        assert ("beyond doubt" in judged.sentence) is grey
    found = p_values(np.repeat([0.9, 0.0], 30) + SCORES, Family(8, 2, 3).over(LOOKS), 3, "look_p")
    alone = p_values(np.repeat([0.9, 0.0], 30) + SCORES, Family(8, 2, 3), 3)
    assert found == pytest.approx(alone, rel=0.3) and min(found.values()) < LEVEL
    assert not p_values(SCORES, Family(8, 2, 3), 3, "look_p")


@pytest.mark.calibration
def test_ten_looks_find_no_leak_oftener_than_one_test_may() -> None:
    """Scores wander from look to look, and none depends on a coin; whoever may stop, stops."""
    draws, runs, size = np.random.default_rng(2), 300, family_of_one_look()
    found = {1: 0, LOOKS: 0}
    for run in range(runs):
        walk = np.cumsum(draws.normal(size=(LOOKS, PEOPLE)), axis=0)
        for looks in found:
            each = (min(p_values(at, size.over(looks), run).values()) for at in walk)
            found[looks] += any(p <= LEVEL for p in each)
    assert found[LOOKS] <= LEVEL * runs + 2.33 * (LEVEL * (1 - LEVEL) * runs) ** 0.5
    assert found[1] > 0.08 * runs  # each look at its own level errs too often: what this prevents


def path(
    scores: np.ndarray, family: Family, seed: int, crossed: Crossed | None = None
) -> list[float]:
    """The smallest adjusted p-value at each look, tossed on. scores: (looks, people)."""
    least = []
    for at in scores:
        model = Model(Sides(at[: PEOPLE // 2], at[PEOPLE // 2 :]), CLAIM, 1e-5, seed)
        case, evidence = model.case, [model.evidence]
        found, tests = (
            findings.measurements_of(evidence, case),
            findings.tests_of(evidence, case),
        )
        look = adjusted(found, tests, case.heads, model.guarantee, family, seed, crossed)
        crossed = look.crossed
        least.append(min(m.adjusted_p for m in look.measurements if m.adjusted_p is not None))
    return least


def test_looks_that_agree_find_at_the_last_what_one_test_would() -> None:
    """The same scores at each look: at look j, the limit has grown to j shares of the level."""
    family = family_of_one_look()
    scores = np.repeat([0.5, 0.0], PEOPLE // 2) + SCORES
    alone = min(p_values(scores, family, 3).values())
    shared = min(p_values(scores, family.over(LOOKS), 3).values())
    least = path(np.tile(scores, (LOOKS, 1)), family.over(LOOKS), 3)
    assert 0.02 < alone < LEVEL < shared
    first = next(look for look, p in enumerate(least, 1) if p <= LEVEL)
    assert first == np.ceil(LOOKS * alone / LEVEL)
    assert least[:first] == pytest.approx([shared / look for look in range(1, 1 + first)], rel=1e-4)
    assert min(least) >= alone


def test_tosses_that_crossed_before_count_in_later_p_values() -> None:
    scores = np.repeat([9.0, 0.0], PEOPLE // 2) + SCORES
    crossed = np.arange(10_000) % 25 == 1  # 4 % of them, not the true one
    family = family_of_one_look().over(2)
    none, some = (
        min(path(scores[None], family, 3, Crossed(before, 1)))
        for before in (np.zeros_like(crossed), crossed)
    )
    assert none < 1e-3 and some == pytest.approx(none + 0.04 * family.tests / 2 / 3, rel=1e-3)


def test_share_of_the_level_is_of_the_planned_tests_of_coins() -> None:
    """However many of them could run: here 3."""
    scores = np.repeat([0.5, 0.0], PEOPLE // 2) + SCORES
    planned, run = (min(p_values(scores, Family(12, 2, tossed), 3).values()) for tossed in (6, 0))
    assert planned == pytest.approx(run / 2, rel=1e-4)


@pytest.mark.calibration
def test_tossed_on_looks_err_as_often_as_one_test_and_find_more_than_shares() -> None:
    draws, runs, size = np.random.default_rng(2), 300, family_of_one_look()
    found = {"chance": 0, "tossed on": 0, "shares": 0}
    for run in range(runs):
        steps = draws.normal(size=(LOOKS, PEOPLE)) * np.array([3.0] + [0.5] * (LOOKS - 1))[:, None]
        walk = np.cumsum(steps, axis=0)
        grown = walk + np.linspace(0, 2.4, LOOKS)[:, None] * np.repeat([1.0, 0.0], PEOPLE // 2)
        found["chance"] += min(path(walk, size.over(LOOKS), run)) <= LEVEL
        found["tossed on"] += min(path(grown, size.over(LOOKS), run)) <= LEVEL
        each = (min(p_values(at, size.over(LOOKS), run).values()) for at in grown)
        found["shares"] += any(p <= LEVEL for p in each)
    assert 0.02 * runs <= found["chance"]  # near the level, which shares are not
    assert found["chance"] <= LEVEL * runs + 2.33 * (LEVEL * (1 - LEVEL) * runs) ** 0.5
    assert found["tossed on"] > found["shares"] + 0.1 * runs
