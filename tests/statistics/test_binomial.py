import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audit.statistics.binomial import p_value


@given(st.integers(0, 300), st.integers(0, 300), st.just(0.0) | st.floats(1e-12, 1))
@example(248, 266, 0.0546875)  # 1.4e-286: scipy's incomplete beta is wrong by 1e-9
@example(208, 228, 0.02830443411911003)  # 4.3e-294: by a factor of three
@example(238, 272, 0.04501944531973601)  # 1.5e-278: by 7 %
@example(29, 60, 1.6596084845096638e-11)
@example(300, 300, 0.11)
@example(1, 100, 1e-20)  # 1e-18; 1 - (1 - 1e-20)^100 in floats would be 0
@example(0, 0, 0.3)
@example(0, 9, 0.0)
@example(1, 9, 0.0)
@example(9, 9, 1.0)
def test_p_value_is_the_sum_of_the_tail(a, b, chance):
    """The sum in whole numbers, in units of the chance's own power of two, divided once."""
    k, n = min(a, b), max(a, b)
    hit, unit = Fraction(chance).as_integer_ratio()
    powers = [math.comb(n, i) * hit**i * (unit - hit) ** (n - i) for i in range(k, n + 1)]
    assert p_value(k, n, chance) == pytest.approx(sum(powers) / unit**n, rel=1e-9, abs=1e-300)
