import math

from audit.statistics.search import largest, last_negative, smallest


def test_ends_are_neighbouring_floats():
    for end in (0.1, 1 / 3, 0.75, 1e-9):
        assert largest(lambda x: x <= end, 0.0, 1.0) == end  # noqa: B023
        assert smallest(lambda x: x >= end, 0.0, 1.0) == end  # noqa: B023
    for end in (0.3, 1.0, 5.0, 1e6):  # an unknown upper end is found by doubling
        assert largest(lambda x: x <= end, 0.0) == end  # noqa: B023


def test_ends_stay_on_the_side_that_holds():
    below = largest(lambda x: x * x <= 2.0, 0.0, 2.0, 1e-3)
    above = smallest(lambda x: x * x >= 2.0, 0.0, 2.0, 1e-3)
    assert math.sqrt(2) - 1e-3 <= below <= math.sqrt(2) <= above <= math.sqrt(2) + 1e-3


def test_width_may_be_relative():
    calls = []
    found = largest(lambda x: not calls.append(x) and x <= 3e6, 0.0, 1e7, relative=1e-3)
    assert 3e6 * (1 - 1.1e-3) <= found <= 3e6 and len(calls) < 20


def test_given_ends_are_not_evaluated():
    assert largest(lambda x: False, 2.0, 3.0) == 2.0
    assert smallest(lambda x: False, 2.0, 3.0) == 3.0
    assert largest(lambda x: 1 / 0, 2.0, 2.0) == 2.0


def test_last_negative_is_approached_from_below() -> None:
    """Of steep, flat and stepped functions alike, whatever their scale."""
    for end in (1e-7, 0.3, 7.0, 900.0):
        for rising in (
            lambda x, end=end: x - end,
            lambda x, end=end: math.expm1(min(x - end, 700.0)),
            lambda x, end=end: (x - end) ** 3,
            lambda x, end=end: -1.0 if x < end else 1.0,
        ):
            found = last_negative(rising, 0.0, 1e-9)
            assert rising(found) < 0.0 <= rising(found + 1e-9), (end, found)
