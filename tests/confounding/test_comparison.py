"""The five checks: their level, their unit, and what they find."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from audit.confounding import Comparison, Sides, compare
from audit.confounding import sides as sides_of
from audit.confounding.comparison import LEVEL, Unmeasured
from audit.confounding.profile import Check, Texts
from audit.core.errors import UsageError
from tests.confounding.people import people, sides
from tests.simulations import most, repeats


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def failed(compared: Comparison) -> set[Check]:
    return {outcome.check for outcome in compared.failed}


def alone(users: list[Texts]) -> list[Texts]:
    """Each text as a user of its own."""
    return [(text,) for texts in users for text in texts]


@repeats(150, 3_000)
@pytest.mark.parametrize(("n", "m"), [(8, 8), (6, 20)])
def test_exchangeable_users_alarm_at_most_at_level(n: int, m: int, runs: int) -> None:
    draw, alarms = stream(n), Counter[str]()
    for seed in range(runs):
        compared = compare(sides(people(n, draw), people(m, draw)), seed, 199)
        alarms.update(str(one.check) for one in compared.outcomes if (one.p or 1.0) <= LEVEL)
        alarms["any"] += compared.exit_code
    assert max(alarms.values(), default=0) / runs <= most(runs), alarms


@repeats(30, 300)
def test_texts_as_units_alarm_where_users_do_not(runs: int) -> None:
    """Eight people a side with 30 texts each: were texts permuted, nearly every run would fail."""
    draw, by_text, by_user = stream(3), 0, 0
    for seed in range(runs):
        inside, outside = (people(8, draw, most=30) for _ in range(2))
        by_text += compare(sides(alone(inside), alone(outside)), seed, 199).exit_code
        by_user += compare(sides(inside, outside), seed, 199).exit_code
    assert by_text / runs > 0.9
    assert by_user / runs <= most(runs)


def test_split_by_date_is_found_by_dates() -> None:
    draw = stream(1)
    found = compare(sides(people(20, draw, since=1980), people(20, draw, since=1990)))
    assert failed(found) >= {Check.DATES} and not failed(found) & {Check.LENGTH}
    dates = next(one for one in found.outcomes if one.check is Check.DATES)
    assert dates.largest is not None and dates.largest.inside > 0.6 > dates.largest.outside
    assert "dates up to 198" in dates.largest.label and found.exit_code == 1


def test_split_by_length_is_found_by_length_alone() -> None:
    draw = stream(2)
    everybody = people(60, draw)
    everybody.sort(key=lambda texts: np.mean([len(text) for text in texts]))
    assert Check.LENGTH in failed(compare(sides(everybody[:30], everybody[30:])))


def test_spread_of_lengths_is_found() -> None:
    """Equal on average: one side's texts are all of 100 characters, the other's of 50 or 150."""
    inside = [("a" * 100,)] * 20
    outside = [("a" * (50 if i % 2 else 150),) for i in range(20)]
    assert Check.LENGTH in failed(compare(sides(inside, outside)))


def test_words_and_letters_of_one_side_are_found() -> None:
    draw = stream(4)
    inside, outside = people(20, draw), people(20, draw)
    words = [tuple(text.replace("bako", "zako").replace("gelu", "zelu") for text in own)
             for own in inside]  # fmt: skip
    greek = [tuple(text.replace("a", "α") for text in own) for own in inside]
    loud = [tuple(text.upper() for text in own) for own in inside]
    assert Check.SCRIPT in failed(compare(sides(greek, outside)))
    assert failed(compare(sides(loud, outside))) == {Check.SCRIPT}
    many = sides([*words] * 4, [*outside] * 4)
    assert {Check.VOCABULARY, Check.CLASSIFIER} <= failed(compare(many))


def test_unequal_sides_are_told_apart() -> None:
    draw = stream(11)
    few = [tuple(text.replace("a", "zoo ") for text in own) for own in people(8, draw, since=1950)]
    for inside, outside in ((few, people(40, draw)), (people(40, draw), few)):
        compared = compare(sides(inside, outside))
        assert failed(compared) == {Check.VOCABULARY, Check.DATES, Check.CLASSIFIER}
        assert (compared.outcomes[-1].value or 0.0) > 0.95


def test_equal_sides_are_alike() -> None:
    everybody = people(30, stream(5))
    compared = compare(sides(everybody, everybody))
    assert not compared.failed and compared.exit_code == 0
    distances = [one.value for one in compared.outcomes if one.check is not Check.CLASSIFIER]
    assert distances == pytest.approx([0.0] * 4, abs=1e-12)


def test_sides_may_be_exchanged() -> None:
    draw = stream(6)
    inside, outside = people(9, draw), people(15, draw, since=1988)
    one, other = compare(sides(inside, outside)), compare(sides(outside, inside))
    for here, there in zip(one.outcomes[:4], other.outcomes, strict=False):
        assert here.value == pytest.approx(there.value)
        assert here.p == pytest.approx(there.p, abs=0.06)


def test_p_values_are_adjusted_by_holm() -> None:
    compared = compare(sides(people(12, stream(7)), people(12, stream(8))))
    p = sorted((one.p, one.adjusted) for one in compared.outcomes)  # type: ignore[type-var]
    due, least = [], 0.0
    for place, (raw, _) in enumerate(p):
        least = max(least, min(1.0, (len(p) - place) * (raw or 0.0)))
        due.append(least)
    assert [adjusted for _, adjusted in p] == pytest.approx(due)


def test_seed_decides() -> None:
    both = sides(people(8, stream(9)), people(8, stream(10)))
    assert compare(both, 3, 199) == compare(both, 3, 199)
    assert compare(both, 3, 199).outcomes != compare(both, 4, 199).outcomes


def test_what_does_not_vary_is_not_measured() -> None:
    compared = compare(
        sides([("a b",), ("b c",), ("a !",)] * 5, [("b a",), ("c b",), ("a !",)] * 5)
    )
    why = {one.check: one.why for one in compared.outcomes}
    assert why[Check.LENGTH] is Unmeasured.ALIKE and why[Check.DATES] is Unmeasured.NO_DATES
    assert why[Check.SCRIPT] is None
    assert not compared.failed


def test_what_no_permutation_would_fail_is_not_measured() -> None:
    """One of 600 writes a date and a capital: a p-value near 1, however the users are divided."""
    rest = [("x" * (1 + i % 9),) for i in range(300)]
    why = {o.check: o.why for o in compare(sides(rest, [*rest[1:], ("In 1990",)])).outcomes}
    assert why[Check.DATES] is why[Check.SCRIPT] is Unmeasured.FEW
    assert why[Check.LENGTH] is None
    with pytest.raises(UsageError, match="or all but too few"):
        compare(sides([("alike",)] * 300, [("alike",)] * 299 + [("Alike",)]))


def test_fewest_users_that_one_check_tells_apart_fail_at_any_seed() -> None:
    """All else is alike but the letters' case: only one check can fail, at five times its p."""
    texts = [f"ab cd {'ef ' * (i % 5)}in {1990 + i % 4}" for i in range(6)]
    both = sides([(text,) for text in texts], [(text.upper(),) for text in texts])
    for seed in range(20):
        assert Check.SCRIPT in failed(compare(both, seed))


def test_folds_that_hold_too_few_users_do_not_pass() -> None:
    """Five and six users in five folds have 48 divisions: the best p-value is 2 %, above 1 %."""
    compared = compare(sides(people(5, stream(1)), people(6, stream(2))))
    assert compared.outcomes[-1].why is Unmeasured.FEW and compared.outcomes[2].p is not None


@pytest.mark.parametrize("same", [("one text",), ("",), ("1990",)])
def test_equal_texts_throughout_are_refused(same: Texts) -> None:
    with pytest.raises(UsageError, match="all users are alike"):
        compare(sides([same] * 9, [same] * 9))


@pytest.mark.parametrize(("n", "m", "enough"), [(5, 5, False), (5, 6, True), (1, 400, False),
                                                (2, 40, True), (2, 8, False)])  # fmt: skip
def test_too_few_users_are_refused(n: int, m: int, enough: bool) -> None:
    both = sides(people(n, stream(1)), people(m, stream(2)))
    if enough:
        assert compare(both, permutations=199).outcomes[0].p
    else:
        with pytest.raises(UsageError, match="too few"):
            compare(both)


@pytest.mark.parametrize("permutations", [198, 10_000])
def test_permutations_out_of_bounds_are_refused(permutations: int) -> None:
    with pytest.raises(UsageError, match="at least 199 and at most 9,999"):
        compare(sides(people(8, stream()), people(8, stream(1))), 0, permutations)


def test_many_users_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides_of, "_MOST", 20)
    everybody = people(40, stream())
    for n, kept in ((8, (8, 12)), (20, (10, 10)), (35, (15, 5))):
        drawn: Sides = compare(sides(everybody[:n], everybody[n:]), 0, 199).sides
        assert (len(drawn.inside.users), len(drawn.outside.users)) == kept
        assert (drawn.inside.every, drawn.outside.every) == (n, 40 - n)
        assert set(drawn.inside.users) <= set(everybody[:n])
