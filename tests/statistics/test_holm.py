import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.holm import adjusted_p_values

rows = st.lists(st.floats(0, 1), max_size=12)


def test_by_hand():
    # sorted .01 .02 .03 .04 → 4·.01, 3·.02, 2·.03, then the running maximum .06
    assert adjusted_p_values([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert adjusted_p_values([0.6, 0.5]) == pytest.approx([1.0, 1.0])
    assert adjusted_p_values([0.3]) == pytest.approx([0.3])
    assert adjusted_p_values([]).shape == (0,)


def step_down(p, level):
    """Holm's procedure as he states it: reject while p_(i) < level / (tests left)."""
    rejected = [False] * len(p)
    for left, i in zip(range(len(p), 0, -1), np.argsort(p, kind="stable"), strict=True):
        if not p[i] * left < level:
            break
        rejected[i] = True
    return rejected


@given(rows, st.sampled_from([0.01, 0.05, 0.2]))
def test_rejections_are_those_of_the_step_down(p, level):
    assert list(adjusted_p_values(p) < level) == step_down(p, level)


@given(rows)
def test_adjusted_lie_between_raw_and_bonferroni(p):
    p = np.array(p)
    adjusted = adjusted_p_values(p)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(1, len(p) * p)).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
