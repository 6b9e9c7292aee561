"""Several audits of the same coins share one level: whoever stops, errs at most that often."""

from __future__ import annotations

import numpy as np
import pytest

from audit import findings
from audit.core.guarantee import no_guarantee
from audit.findings.adjusted import adjusted
from audit.findings.rejections import Family
from audit.results.joined import LEVEL
from audit.scores.given import Sides
from audit.scores.judged import Model

LOOKS, PEOPLE = 10, 60
CLAIM = no_guarantee("tests")


def p_values(scores: np.ndarray, family: Family, seed: int) -> dict[str, float]:
    """Adjusted p-values of one look at people of whom the first half is in."""
    half = len(scores) // 2
    model = Model(Sides(scores[:half], scores[half:]), CLAIM, 1e-5, seed)
    case, evidence = model.case, [model.evidence]
    found = findings.measurements_of(evidence, case)
    done = adjusted(
        found, findings.tests_of(evidence, case), case.heads, model.guarantee, family, seed
    )
    return {m.metric: m.adjusted_p for m in done if m.adjusted_p is not None}


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
    assert Family(8, 2, 3).over(4) == Family(32, 8, 3)


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
