"""The hits test against its definition and by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from scipy.stats import binom

from audit.statistics import hits


def test_different_generations_have_the_binomial_tail() -> None:
    # each of 60 secrets is one of 100 different generations with probability 100/10⁵
    for k in (1, 2, 3):
        expected = binom.sf(k - 1, 60, 100 / 1e5)
        assert hits.p_value(k, [1] * 100, 60, 1e-5) == pytest.approx(expected, rel=1e-9)


def test_one_repeated_value_is_one_coincidence() -> None:
    repeats = [50] + [1] * 50
    # 50 hits need a secret to be the repeated value, or some of the others 50 times over
    assert hits.p_value(50, repeats, 63, 1e-5) == pytest.approx(63 * 1e-5, rel=1e-3)
    assert hits.p_value(51, repeats, 63, 1e-5) < hits.p_value(50, repeats, 63, 1e-5)


def test_p_value_is_the_exact_tail() -> None:
    """All 5^planted draws of the secrets; repeats[v]: how often value v was generated."""
    space, rows = 5, ([3, 2, 2, 1], [2, 2], [1, 1, 1], [4, 1], [1] * 6)
    for repeats, planted in itertools.product(rows, (1, 2, 4)):
        scores = Counter(
            sum(repeats[v] for v in secrets if v < len(repeats[:space]))
            for secrets in itertools.product(range(space), repeat=planted)
        )
        for k in range(0, 2 + planted * max(repeats)):
            exact = sum(count for score, count in scores.items() if score >= k) / space**planted
            p = hits.p_value(k, repeats, planted, 1 / space)
            assert p == pytest.approx(exact, rel=1e-9, abs=2e-15), (repeats, planted, k)


def test_needed_hits_are_the_fewest_that_count() -> None:
    assert hits.needed(100, 60, 1e-5, 0.05) == 2
    assert hits.needed(100, 10, 1e-5, 0.05) == 1
    assert hits.needed(2, 2, 0.5, 0.05) is None
    assert hits.needed(0, 5, 0.5, 0.05) is None
    for level in (1e-2, 1e-4, 1e-6):
        needed = hits.needed(60, 60, 1e-3, level)
        assert needed is not None
        assert hits.p_value(needed, [1] * 60, 60, 1e-3) < level
        assert hits.p_value(needed - 1, [1] * 60, 60, 1e-3) >= level


def test_needed_hits_of_many_people_take_few_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each count was tried from 1 on: minutes for thousands of people with four-digit codes."""
    tail, tried = hits.p_value, list[int]()

    def counted(k: int, *rest: Any) -> float:
        tried.append(k)
        return tail(k, *rest)

    monkeypatch.setattr(hits, "p_value", counted)
    assert hits.needed(800, 800, 1e-4, 1e-3) == 90
    assert len(tried) < 20
