"""From hits and likelihoods to findings: counts by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Evidence, Hits, Likelihoods
from audit.core.predictor import Access
from audit.core.secret import Secret, Space, digits
from audit.findings import Case, measurements_of
from tests.findings.closeness import figures, six
from tests.findings.joined import case, codes, half, pairs, records


def said(*indices: int) -> Hits:
    """Generations that were these secrets; each −1 is a text of its own that is none."""
    values = [i if i >= 0 else -1 - place for place, i in enumerate(indices)]
    return Hits(np.array(indices, dtype=int), tuple(Counter(values).values()))


def four(secrets: Sequence[Secret] = codes(4, 3), **more: Any) -> Case:
    """u0 and u1 are trained on, u2 and u3 are twins: planted are 0 and 3, twins' are 4 and 7."""
    return case(secrets, half(4), [0, 1, 0, 1], **more)


def by_metric(of: Case, *evidence: Evidence) -> Any:
    return {f.metric: f for f in measurements_of(evidence, of)}


GIVEN = said(0, 0, 3, 4, -1, -1, 1, 2, -1, 5)  # nine different texts


def test_hits_are_counted_by_hand() -> None:
    found = by_metric(four(), GIVEN)
    rate, recall = found["hit_rate"], found["recall"]
    assert list(found) == ["hit_rate", "recall"]
    assert (rate.k, rate.n, rate.value) == (3, 10, 0.3)
    assert (rate.control.k, rate.control.n, rate.control.value) == (1, 10, 0.1)
    assert rate.chance == six(2 / 1000)  # two planted codes of a thousand
    assert (recall.k, recall.n, recall.value) == (2, 2, 1.0)
    assert (recall.control.k, recall.control.n, recall.control.value) == (1, 2, 0.5)
    assert recall.chance == six(9 / 1000)  # nine guesses at a thousand
    assert figures(rate.observation) == [3, 10, 1] and figures(recall.observation) == [2, 2, 1, 2]
    assert rate.least_p <= (10 / 1000) ** 2 * (1 + 1e-6)  # ten different, two of them the codes
    five = by_metric(four(), said(0, 3, 0, 3, 0))
    assert five["hit_rate"].ci == six((0.025 ** (1 / 5), 1.0))
    assert five["hit_rate"].control.ci == six((0.0, 1 - 0.025 ** (1 / 5)))
    assert five["recall"].ci == six((0.025 ** (1 / 2), 1.0))


def test_examples_name_five_leaked_values_and_one_other() -> None:
    """By generation, without the text of what is not planted; a twin's value is no leak."""
    found = by_metric(four(), said(4, -1, 3, 3, 0))
    shown = [(one.generation, one.prompt, one.planted) for one in found["hit_rate"].examples]
    assert shown == [(2, "#", True), (4, "#", True), (0, "#", False)]
    assert found["recall"].examples == ()
    many = by_metric(case(codes(7), [True] * 7), said(*range(0, 14, 2)))["hit_rate"].examples
    assert [one.generation for one in many] == [0, 1, 2, 3, 4]
    own = by_metric(case(records(2), [True, False]), said(0, -1))
    assert own["hit_rate"].examples == ()  # the text around it is somebody's own


def test_hits_are_as_likely_as_codes_falling_there() -> None:
    """A code unknown to the release is what it said twice with probability 1/1000, what it said
    once with 8/1000. Three hits of two codes: 2 + 1, 1 + 2 or 2 + 2."""
    found = by_metric(four(), GIVEN)
    assert found["hit_rate"].p_value == six(2 * 0.001 * 0.008 + 0.001**2)
    assert found["recall"].p_value == found["hit_rate"].p_value
    assert found["recall"].test == found["hit_rate"].test  # one test, however often it is shown
    for given, p in (
        (said(0, 0, 0, 0, 4, 7), 1 - 0.999**2),
        (said(*[0] * 5, *[3] * 5), (2 / 1000) ** 2),  # each is one of the two: the least p
        (said(1, 2, 4, 5, 6, 7, -1), 1.0),
    ):
        rate = by_metric(four(), given)["hit_rate"]
        assert rate.p_value == pytest.approx(p, rel=1e-3)
        assert rate.least_p <= rate.p_value * (1 + 1e-6)


def test_texts_that_are_no_code_prove_nothing() -> None:
    """One code of ten, said three times beside 33 other texts: 1/10 that it is the one it is."""
    of = case(pairs([("1", "2"), ("3", "4")], digits(1)), [True, False])
    rate = by_metric(of, said(0, 0, 0, 1, 2, 3, *[-1] * 30))["hit_rate"]
    assert rate.k == 3 and rate.p_value >= 0.1 - 1e-9


def test_searched_values_are_tried_once_each() -> None:
    """Both planted codes are among the four most likely values of a thousand: p = (4/1000)²."""
    tried = np.array([3, 0, 4, -1])
    evidence = Hits(tried, (1,) * 4, sampled=False, access=Access.DISTRIBUTION, kind="code")
    found = by_metric(four(), evidence)
    rate, recall = found["searched_rate"], found["searched_recall"]
    assert list(found) == ["searched_rate", "searched_recall"]
    assert (rate.k, rate.n, rate.control.k) == (2, 4, 1)
    assert (recall.k, recall.n, recall.control.k, recall.control.n) == (2, 2, 1, 2)
    assert figures(rate.observation) == [2, 4, 1]
    assert rate.p_value == six((4 / 1000) ** 2) and recall.chance == six(4 / 1000)
    assert rate.test != by_metric(four(), GIVEN)["hit_rate"].test


def test_evidence_on_one_kind_meets_coins_of_that_kind() -> None:
    """Records stand between the codes: places move, chance and planted are of codes alone."""
    mixed = [s for pair in zip(records(4), codes(4, 3), strict=True) for s in pair]
    moved = Hits(np.where(GIVEN.found < 0, -1, 2 * GIVEN.found + 1), GIVEN.repeats, kind="code")
    values = np.full(16, np.nan)
    values[1::2] = np.log([0.5, 1, 1, 0.001, 0.1, 1, 1, 0.1])
    found = by_metric(four(mixed), moved, Likelihoods(values, kind="code"))
    assert found == by_metric(four(), GIVEN, Likelihoods(values[1::2]))


@pytest.mark.parametrize("spaces", [(None, None), (digits(3), digits(4))])
def test_hits_without_a_common_space_are_untested(spaces: tuple[Space | None, ...]) -> None:
    secrets = [s for i in (0, 1) for s in pairs([("a", "b"), ("c", "d")], spaces[i])[2 * i :][:2]]
    rate = by_metric(case(secrets, [True, False]), said(0, 2))["hit_rate"]
    assert (rate.chance, rate.p_value, rate.k) == (None, None, 1)


def test_chance_of_many_planted_values_is_at_most_one() -> None:
    """Thirty planted codes of one digit: a generation is one of them at most for certain."""
    secrets = pairs([(str(i % 10), "0") for i in range(30)], digits(1))
    found = by_metric(case(secrets, [True] * 30), said(0))
    assert all(0 <= f.chance <= 1 for f in found.values())


def test_power_is_of_the_trials_and_tests() -> None:
    """A rate is detectable if the fewest hits that convince are missed in one of five runs.

    Ten guesses at two codes of a hundred: one hit has p = 0.19, two have p = 0.01. Both must come
    up, though the first may come up again: each misses ten times with (1 − r/2)^10.
    """
    found = by_metric(four(), GIVEN)
    power = found["hit_rate"].power
    assert (power.n, power.smallest_rate) == (10, six(1 - 0.05 ** (1 / 10)))
    assert power.largest_epsilon == 0.0  # two guesses can show nothing
    # one of the two must come up: each with 1 − √0.2, in ten generations of which each is half
    each = 1 - 0.2 ** (1 / 2)
    assert power.detectable_rate == six(2 * (1 - (1 - each) ** 0.1))
    power = found["recall"].power
    assert (power.n, power.smallest_rate) == (2, six(1 - 0.05 ** (1 / 2)))
    assert power.largest_epsilon is None
    secrets = pairs([("10", "11"), ("12", "13")], digits(2))
    for tests in (1, 4):
        of = case(secrets, [True] * 2, tests=tests)
        rate = by_metric(of, said(*[-1] * 10))["hit_rate"].power.detectable_rate
        assert binom.cdf(1, 2, 1 - (1 - rate / 2) ** 10) == six(0.2)
    of = case(secrets, [True] * 2, tests=8)  # not even two of two would survive eight tests
    assert by_metric(of, said(*[-1] * 10))["hit_rate"].power.detectable_rate is None


# --- probabilities


def test_probabilities_are_averaged_over_the_planted() -> None:
    with np.errstate(divide="ignore"):
        given = Likelihoods(np.log([0.5, np.nan, 0.25, 0.001, 0.1, 0.2, 0.3, 0.0]))
    found = by_metric(four(), given)
    assert list(found) == ["probability", "discoverable"]
    seen = [1 - (1 - p) ** 1000 for p in (0.5, 0.001, 0.1, 0.0)]
    for one, planted, twins, chance in (
        (found["probability"], 0.501, 0.1, 1 / 1000),
        (found["discoverable"], sum(seen[:2]), sum(seen[2:]), 1 - 0.999**1000),
    ):
        assert (one.value, one.control.value) == (six(planted / 2), six(twins / 2))
        assert one.chance == six(chance)
        assert one.epsilon_lower is None and one.k is None and one.power.n == 2
    unread = Likelihoods(np.log([0.5, 0.5, 0.5, np.nan, 0.1, 0.5, 0.5, np.nan]))
    one = by_metric(four(), unread)["probability"]
    assert figures(one.observation) == [50, 10]  # %, twins
    assert (one.value, one.power.n, one.control.value) == (six(0.5), 1, six(0.1))
    assert by_metric(four(), Likelihoods(np.zeros(8)))["discoverable"].value == six(1.0)


def test_no_probability_of_few_may_still_leak() -> None:
    """Five of either side: a sixth of all secrets may be certain; resampling would say none is."""
    with np.errstate(divide="ignore"):
        given = Likelihoods(np.full(20, -np.inf))
    for one in by_metric(case(codes(10), half(10)), given).values():
        assert one.ci == one.control.ci == six((0.0, 1 - 0.025 ** (1 / 5)))


def firsts(values: Sequence[float]) -> Likelihoods:
    """Log-probabilities of each owner's first value, the others' being small."""
    both = np.full(2 * len(values), -50.0)
    both[::2] = values
    return Likelihoods(both)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        (-np.arange(10.0), 2 / 252),  # five planted above five twins: one ordering of 252
        (np.arange(10.0) - 10, 2 / 252),  # below them, as behind a block list
        ([0, -2, -4, -6, -8, -1, -3, -5, -7, -9], None),  # in turn
        ([-50] * 10, 1.0),  # a release to which all codes are alike
    ],
)
def test_rank_test_counts_orderings_on_both_sides(values: Sequence[float], p: float | None) -> None:
    found = by_metric(case(codes(10), half(10)), firsts(values))
    one, other = found["probability"], found["discoverable"]
    assert one.p_value > 0.2 if p is None else one.p_value == orders(p)
    assert (other.p_value, other.test, other.sides) == (one.p_value, one.test, one.sides)
    assert one.sides == 2


def orders(p: float) -> Any:
    """By 9,999 permutations."""
    return pytest.approx(p, abs=8 * (p / 2 / 1e4) ** 0.5)


def test_few_and_one_sided_orders_are_not_tested() -> None:
    """Two planted above two twins, or below: two orderings of six."""
    assert by_metric(four(), Likelihoods(np.arange(-8.0, 0.0)))["probability"].least_p == six(2 / 6)
    for present in (True, False):
        found = by_metric(case(codes(4), [present] * 4), Likelihoods(np.full(8, -1.0)))
        one = found["probability"]
        assert (one.p_value, one.control is None, one.value is not None) == (None, present, present)


def test_shared_value_is_compared_on_neither_side() -> None:
    """u4, trained on, and u5, not, drew one value, which the release loves: five planted and five
    twins become four and four, whose order is one of 70. So whatever other tests there are."""
    secrets = codes(10)
    secrets[10] = replace(secrets[8], owner="u5")
    values = -np.arange(10.0)
    values[[4, 5]] = -1e-3
    evidence = firsts(values.tolist())
    for tests in (1, 4):
        found = by_metric(case(secrets, half(10), tests=tests), evidence)["probability"]
        assert found.p_value == orders(2 / 70)
        assert found.control.n == 4  # u5's own value stands in the text: no twin's


def test_value_is_shared_by_turn_and_whoever_got_it() -> None:
    """Assistants say the same to many; after a user's own words it is that user's."""
    alike = [replace(turn, prefix="Hi. ") for turn in records(["You will hear from us."] * 3)]
    own = [replace(turn, prefix=f"I am {turn.owner}. ") for turn in alike]
    assert case(own, [True] * 3).single.all() and not case(alike, [True] * 3).single.any()
    secrets = codes(10)
    secrets[2] = replace(secrets[1], owner="u1", slot=0)  # u0's other value
    for slot in (0, 1):
        single = case(secrets, half(10), [slot, *[0] * 9]).single
        assert np.flatnonzero(~single).tolist() == [1, 2]
