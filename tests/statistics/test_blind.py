"""The blind baseline: what it sees, what it must not see, and the level of its p-value."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.statistics import blind
from audit.statistics.blind import blind_auc
from tests.simulations import most, repeats


def stream(seed=0):
    return np.random.default_rng(seed)


def texts(count, generator, length=60, letters="etaoin shrdlu", starts=0.5):
    """Random letters; a share `starts` of the texts begins with a space, the others with an e."""
    rows = generator.choice(list(letters), size=(count, length))
    spaces = generator.random(count) < starts
    return [" e"[int(not s)] + "".join(row) for s, row in zip(spaces, rows, strict=True)]


def test_a_leading_space_is_detected():
    """As in the candidates of the Selective-DP paper: 92.5 % right by the first character."""
    draw = stream(1)
    members, controls = texts(300, draw, starts=0.925), texts(300, draw, starts=0.075)
    found, p = blind_auc(members, controls, draw)
    assert found.value == pytest.approx(0.925, abs=0.05)
    assert found.low > 0.8 and p == 0.005
    assert found.n == 600
    lopsided, p = blind_auc(members[:40], controls, draw)
    assert lopsided.value == pytest.approx(0.925, abs=0.07) and p == 0.005


def test_other_confounds_are_detected():
    draw = stream(2)
    for number, controls in enumerate(
        (
            texts(80, draw, letters="etaoin shrdlz"),  # another letter
            texts(80, draw, length=90),
            [t[:-1] + "s" for t in texts(80, draw)],  # the last letter
            [t[:30] + "qj" + t[32:] for t in texts(80, draw)],
        )
    ):
        found, p = blind_auc(texts(80, draw), controls, draw)
        assert found.value > 0.9 and p == 0.005, number


@repeats(40, 400)
@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 60)])
def test_exchangeable_texts_average_one_half(n, m, runs):
    draw = stream(3)
    found = [
        blind_auc(texts(n, draw, 12), texts(m, draw, 12), draw, permutations=1)[0].value
        for _ in range(runs)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=4 * np.std(found) / math.sqrt(runs))


@repeats(30, 2000)
@pytest.mark.parametrize(("n", "m"), [(10, 10), (3, 30)])
@pytest.mark.parametrize("length", [1, 12])  # of 26 different texts, or of many
def test_exchangeable_texts_alarm_at_most_at_level(n, m, length, runs):
    draw, alarms = stream(n), 0
    for _ in range(runs):
        interval, p = blind_auc(texts(n, draw, length), texts(m, draw, length), draw)
        alarms += p <= 0.05
        assert (p <= 0.05) == (not interval.low <= 0.5 <= interval.high)
    assert alarms / runs <= most(runs)


def test_equal_texts_are_no_evidence():
    """Labels are permuted inside the folds only: of 2 + 1 texts, one of 1 + 1."""
    found, p = blind_auc(["same"] * 9, ["same"] * 5, stream())
    assert (found.value, p) == (0.5, 1.0)
    assert found.ci == pytest.approx((0.5, 0.5), abs=1e-9)
    empty, p = blind_auc(["", ""], ["", "\ud800"], stream())
    assert p > 0.05 and empty.ci is not None


def test_equal_texts_tie_among_others():
    """Forty equal texts a side and one that differs: nearly all comparisons are ties."""
    for count in (37, 40, 41):
        found, _ = blind_auc(["the same"] * count + ["other"], ["the same"] * count, stream())
        assert found.value == pytest.approx(0.5, abs=0.03)


def test_pairs_of_equal_texts_lower_the_area():
    """Each text has learnt that its like is of the other side: such candidates are confounded."""
    paired = texts(30, stream(4))
    found, p = blind_auc(paired, paired, stream())
    assert found.high < 0.5 and p <= 0.05


def test_too_few_texts_have_no_value():
    for inside, outside in ([["a"], ["b", "c"]], [[], []]):
        found, p = blind_auc(inside, outside, stream())
        assert (found.value, found.ci, p) == (None, None, 1.0)


def test_many_texts_are_sampled_down(monkeypatch):
    monkeypatch.setattr(blind, "_MOST", 40)
    draw = stream()
    for n, m, kept in ((10, 10, 20), (10, 500, 40), (500, 10, 40), (500, 500, 40)):
        assert blind_auc(texts(n, draw), texts(m, draw), draw)[0].n == kept
    inside, outside = blind._drawn([str(i) for i in range(10)], ["x"] * 500, draw)
    assert (len(inside), len(outside)) == (10, 30)


def test_the_stream_decides():
    draw = stream()
    members, controls = texts(20, draw), texts(20, draw)
    assert blind_auc(members, controls, stream(5)) == blind_auc(members, controls, stream(5))
