"""Exposure, from ranks to findings: bits and bounds by hand, the null, and releases of known ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Ranks
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space, digits
from audit.findings import Case, Finding, findings_of
from tests.simulations import repeats

NAN = float("nan")
THOUSAND = digits(3)


def pairs(
    values: Sequence[tuple[str, str]], space: Space | None = THOUSAND, copies: Sequence[int] = (1,)
) -> list[Secret]:
    """Two candidates of each owner u0, u1, …; copies in turn."""
    return [
        Secret("id", "#", value, ".", space, copies[i % len(copies)], f"u{i}", slot)
        for i, both in enumerate(values)
        for slot, value in enumerate(both)
    ]


def crowd(n: int, space: Space = THOUSAND, **more: Any) -> list[Secret]:
    """n owners of two values that nobody else has."""
    return pairs([(f"{2 * i:03}", f"{2 * i + 1:03}") for i in range(n)], space, **more)


def case(secrets: Sequence[Secret], present: Sequence[bool], **more: Any) -> Case:
    """Everybody's first value is the chosen one."""
    names = [f"u{i}" for i in range(len(present))]
    coins = Coins(dict(zip(names, present, strict=True)), dict.fromkeys(names, 0))
    options: dict[str, Any] = {"delta": 0.0, "seed": 0, "access": Access.DISTRIBUTION, **more}
    return Case("exposure", tuple(secrets), coins, **options)


def ranks(firsts: Sequence[float], seconds: float = 500.0, **columns: Any) -> Ranks:
    """Exact ranks of each owner's first value, out of a thousand; columns differ where given."""
    both = np.array([r for first in firsts for r in (first, seconds)], dtype=float)
    filled = {"better": both, "worst": both, "middle": both, "whole": both, "log_probs": -both}
    filled |= {"spaces": 1000.0, "exact": 1.0, "fitted": NAN} | columns  # type: ignore[dict-item]
    names = ("log_probs", "better", "worst", "middle", "spaces", "whole", "exact", "fitted")
    return Ranks(*(np.broadcast_to(filled[n], both.shape).astype(float) for n in names))


def found(evidence: Ranks, of: Case) -> Finding:
    (finding,) = findings_of([evidence], of)
    return finding


# --- by hand


def test_three_ranks_by_hand() -> None:
    """1, 10 and 100 of a thousand: 9.97, 6.64 and 3.32 bits. Fisher: x = 3 ln 10 + 2 ln 10 + ln 10,
    and P[Gamma(3) ≥ x] = e^−x (1 + x + x²/2). The lower median is at most 10 with probability at
    most 2 e^ε 10/1000."""
    one = found(ranks([1, 100, 10, 250, 4]), case(crowd(5), [True] * 3 + [False] * 2))
    bits = [math.log2(1000 / r) for r in (1, 100, 10, 250, 4)]
    assert one.metric == "exposure_1_copy" and one.unit == "bits"
    assert (one.interval.value, one.interval.n) == (pytest.approx(bits[2]), 3)
    assert one.control is not None and one.control.n == 2
    assert one.control.value == pytest.approx((bits[3] + bits[4]) / 2)
    assert one.chance == pytest.approx(math.log2(1000 / 500.5))
    x = 6 * math.log(10)
    assert one.p_value == pytest.approx(math.exp(-x) * (1 + x + x * x / 2))
    bound = one.epsilon_lower
    assert bound is not None and bound.value == pytest.approx(math.log(0.025 * 1000 / 10))
    assert (bound.rank, bound.space, bound.n, bound.method) == (10, 1000, 3, "rank")
    assert (bound.unit, bound.relation, bound.hypothesis) == ("user", "add_or_remove", "none")
    assert one.power.largest_epsilon == pytest.approx(math.log(0.025 * 1000))
    assert one.exposures is not None
    assert one.exposures.planted == pytest.approx(sorted(bits[:3]))
    assert one.exposures.twins == pytest.approx(sorted(bits[3:]))
    assert one.exposures.space == 1000
    assert one.observation == (
        "Median exposure 6.64 of 9.97 bits (twins 4.98, never seen 0.999); 3 ranks, all exact."
    )


def test_one_rank_is_tested_at_the_whole_level() -> None:
    one = found(ranks([2, 900]), case(crowd(2), [True, False]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == pytest.approx(math.log(0.05 * 1000 / 2))
    assert one.p_value == pytest.approx(2 / 1000)
    assert one.power.largest_epsilon == pytest.approx(math.log(50))


def test_delta_is_taken_from_the_level() -> None:
    one = found(ranks([2, 900]), case(crowd(2), [True, False], delta=0.01))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == pytest.approx(math.log(0.04 * 1000 / 2))


def test_ties_share_a_rank_in_figures_and_count_against_the_secret_in_epsilon() -> None:
    """Ten alike from rank 1 on: the mid-rank is 5.5, the worst 10."""
    evidence = ranks([1, 900], middle=[5.5, 5.5, 900, 900], worst=10, whole=10)
    one = found(evidence, case(crowd(2), [True, False]))
    assert one.interval.value == pytest.approx(math.log2(1000 / 5.5))
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 10
    assert one.p_value == pytest.approx(10 / 1000)


def test_rivals_leave_the_other_secrets_out_but_the_test_does_not() -> None:
    """Rank 1 among 990 rivals and itself, rank 8 among all: ε from the one, p from the other."""
    one = found(ranks([1, 900], spaces=991, whole=8), case(crowd(2), [True, False]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == pytest.approx(math.log(0.05 * 991))
    assert one.p_value == pytest.approx(8 / 1000)
    assert one.interval.value == pytest.approx(math.log2(991))


def test_all_ranks_one_is_the_smallest_p_and_the_largest_epsilon() -> None:
    one = found(ranks([1] * 8), case(crowd(8), [True] * 8))
    assert one.interval.value == pytest.approx(math.log2(1000))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == pytest.approx(math.log(0.025 * 1000))
    assert one.epsilon_lower.value == pytest.approx(one.power.largest_epsilon)
    x = 8 * math.log(1000)
    terms = [x**i / math.factorial(i) for i in range(8)]
    assert one.p_value == pytest.approx(math.exp(-x) * sum(terms))
    assert one.control is None


def test_six_ranks_have_an_interval_and_five_the_whole_range() -> None:
    """2/2^6 < 0.05 < 2/2^5: of six, the smallest and the largest."""
    chosen = [1, 2, 4, 8, 16, 32]
    six = found(ranks(chosen), case(crowd(6), [True] * 6)).interval
    assert six.ci == pytest.approx((math.log2(1000 / 32), math.log2(1000)))
    five = found(ranks(chosen[:5]), case(crowd(5), [True] * 5)).interval
    assert five.ci == pytest.approx((0.0, math.log2(1000)))
    assert five.value == pytest.approx(math.log2(1000 / 4)) and "whole range" in five.method


def test_tiers_of_copies_are_not_pooled() -> None:
    secrets = crowd(6, copies=(1, 4, 16))
    found_ = findings_of([ranks([1, 2, 3, 900, 800, 700])], case(secrets, [True] * 3 + [False] * 3))
    names = ["exposure_1_copy", "exposure_4_copies", "exposure_16_copies"]
    assert [f.metric for f in found_] == names
    assert len({f.test for f in found_}) == 3
    for finding, rank, beside in zip(found_, (1, 2, 3), (900, 800, 700), strict=True):
        assert finding.interval.n == finding.control.n == 1  # type: ignore[union-attr]
        assert finding.epsilon_lower is not None and finding.epsilon_lower.rank == rank
        assert finding.control is not None
        assert finding.control.value == pytest.approx(math.log2(1000 / beside))


def test_spaces_of_different_sizes_are_not_pooled_either() -> None:
    small = [Secret("id", "x#", v, ".", digits(2), 1, "u2", s) for s, v in enumerate(("01", "02"))]
    secrets = [*crowd(2), *small]
    evidence = ranks([1, 900, 1], spaces=[1000] * 4 + [100] * 2)
    found_ = findings_of([evidence], case(secrets, [True, False, True]))
    assert [f.metric for f in found_] == ["exposure_1_copy_of_100", "exposure_1_copy_of_1000"]
    largest = [f.power.largest_epsilon for f in found_]
    assert largest == [pytest.approx(math.log(5)), pytest.approx(math.log(50))]


# --- sampled, fitted, bounded, unread


def test_what_was_fitted_is_shown_and_never_counted() -> None:
    """9 bits by the fit, which two ranks of 101 cannot show; above 9.97 there is nothing."""
    sampled = {"spaces": 101, "exact": NAN}
    evidence = ranks([1, 1, 50], fitted=[9, 0, 99, 0, NAN, 0], **sampled)
    one = found(evidence, case(crowd(3), [True, True, False]))
    assert one.interval.value == pytest.approx((9 + math.log2(1000)) / 2)
    assert one.epsilon_lower is not None and one.epsilon_lower.space == 101
    assert one.epsilon_lower.value == pytest.approx(math.log(0.025 * 101))
    assert one.p_value == pytest.approx(2 / 101)  # the lower of two, in any dependence
    assert one.control is not None and one.control.value == pytest.approx(math.log2(101 / 50))
    assert "from 100 sampled candidates" in one.observation


def test_more_references_than_candidates_are_no_larger_space() -> None:
    """A thousand draws out of ten: rank 1 of 1,001 still is one of ten."""
    secrets = pairs([("1", "2"), ("3", "4")], digits(1))
    one = found(ranks([1, 1], spaces=1001, exact=NAN), case(secrets, [True, False]))
    assert one.epsilon_lower is not None
    assert (one.epsilon_lower.space, one.epsilon_lower.value) == (10, 0.0)
    assert one.least_p == pytest.approx(1 / 10)  # convinces nobody
    assert one.interval.value == pytest.approx(math.log2(10))


def test_certified_bounds_are_used_where_they_are_safe() -> None:
    evidence = ranks([1, 900], better=1, middle=6, worst=40, whole=45, exact=0)
    one = found(evidence, case(crowd(2), [True, False]))
    assert one.interval.value == pytest.approx(math.log2(1000 / 6))
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 40
    assert one.p_value == pytest.approx(45 / 1000)
    assert "0 exact, the others within bounds" in one.observation


def test_bounds_without_any_estimate_say_what_they_bound() -> None:
    """Nobody sampled: no figure, but between 1 and 250 of a thousand is 2 to 9.97 bits."""
    columns = {"better": 1, "worst": 250, "whole": 250, "middle": NAN, "exact": 0}
    one = found(ranks([9, 9], **columns), case(crowd(2), [True, False]))
    assert one.interval.value is None and one.exposures is None and one.control is None
    assert one.observation.endswith("between 2 and 9.97 bits.")
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 250


def test_unread_secrets_are_left_out_on_both_sides() -> None:
    columns = [np.array([1, NAN, NAN, NAN, 7, NAN, NAN, NAN])] * 7
    evidence = Ranks(*columns, np.full(8, NAN))
    evidence.spaces[:] = np.where(np.isnan(columns[0]), NAN, 1000)
    of = case(crowd(4), [True, True, False, False])
    one = found(evidence, of)
    assert (one.interval.n, one.power.n) == (1, 1)
    assert one.control is not None and one.control.n == 1
    assert one.exposures is not None and len(one.exposures.planted) == 1
    nothing = found(Ranks(*[np.full(8, NAN)] * 8), of)
    assert (nothing.interval.value, nothing.p_value, nothing.epsilon_lower) == (None,) * 3
    assert (nothing.control, nothing.exposures, nothing.observation) == (None, None, "")
    assert (nothing.power.largest_epsilon, nothing.power.n) == (None, 0)


@pytest.mark.parametrize("present", [[True] * 4, [False] * 4, [True], [False]])
def test_without_twins_or_without_planted_there_is_one_side(present: list[bool]) -> None:
    one = found(ranks([3] * len(present)), case(crowd(len(present)), present))
    assert (one.control is None) == present[0]
    assert (one.interval.value is None) != present[0]
    assert (one.epsilon_lower is None) != present[0]


def test_no_secrets_no_findings() -> None:
    assert findings_of([Ranks(*[np.array([])] * 8)], case([], [])) == []


def test_a_space_of_one_value_shows_nothing() -> None:
    secrets = pairs([("7", "7"), ("7", "7")], Space((("7",),)))
    one = found(ranks([1, 1], seconds=1, spaces=1), case(secrets, [True, False]))
    assert (one.interval.value, one.chance, one.p_value, one.least_p) == (0.0, 0.0, 1.0, 1.0)
    assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0
    assert one.power.largest_epsilon == 0.0


def test_secrets_that_were_drawn_from_no_space_have_no_exposure() -> None:
    """The corpus's own names, which an attack cannot rank: all NaN."""
    secrets = pairs([("Ann", "Ann"), ("Ben", "Ben")], None)
    evidence = Ranks(*[np.full(4, NAN)] * 8)
    assert all(f.interval.value is None for f in findings_of([evidence], case(secrets, [True] * 2)))


@pytest.mark.parametrize(
    ("size", "n", "tests", "tested"),
    [(10, 1, 1, False), (10, 2, 1, False), (10, 3, 1, True), (100, 1, 1, True), (100, 1, 6, False)],
)
def test_so_few_that_no_rank_could_convince_are_not_tested(
    size: int, n: int, tests: int, tested: bool
) -> None:
    """All of them rank 1: e^−x Σ x^i/i!, x = n ln |R|: .1, .056, .032; .01 against .05/6."""
    space = digits(round(math.log10(size)))
    secrets = pairs([(str(i), str(i)) for i in range(n)], space)
    of = case(secrets, [True] * n, tests=tests)
    one = found(ranks([1] * n, seconds=1, spaces=size), of)
    assert (one.least_p * tests < 0.05) == tested
    assert one.p_value == pytest.approx(one.least_p)  # all of them are rank 1


@pytest.mark.parametrize(
    ("access", "stronger"), [(Access.DISTRIBUTION, False), (Access.SCORE, True)]
)
def test_ranks_need_distributions(access: Access, stronger: bool) -> None:
    one = found(ranks([1, 2]), case(crowd(2), [True, False], access=access))
    assert (one.access, one.stronger_than_release) == ("distribution", stronger)


# --- releases that score every candidate of a space


def counted(scores: np.ndarray, values: np.ndarray) -> Ranks:
    """Ranks from all scores (|R|,), higher = more likely, of secrets (s,): counted one by one."""
    own = scores[values]
    different, often = np.unique(values, return_counts=True)
    rivals = np.delete(scores, different)
    better = 1.0 + (rivals > own[:, None]).sum(axis=1)
    worst = 1.0 + (rivals >= own[:, None]).sum(axis=1)
    space = float(len(rivals) + 1)
    shared = often[np.searchsorted(different, values)] > 1  # says nothing of either owner
    whole = (scores >= own[:, None]).sum(axis=1).astype(float)
    same = np.ones(len(values))
    ended = np.where(shared, space, worst)
    middle = (better + worst) / 2
    return Ranks(own, better, ended, middle, space * same, whole, same, NAN * same)


def simulated(
    size: int, owners: int, generator: np.random.Generator
) -> tuple[Case, np.ndarray, np.ndarray]:
    """(case, values (2·owners,), present (owners,)): values with replacement, fair coins."""
    length = len(str(size)) - 1
    values = generator.integers(size, size=2 * owners)
    texts = [f"{v:0{length}}" for v in values]
    secrets = pairs(list(zip(texts[::2], texts[1::2], strict=True)), digits(length))
    present = generator.random(owners) < 0.5
    return case(secrets, present.tolist()), values, present


def allowed(runs: int) -> int:
    """Alarms at 5 % that chance exceeds one time in a thousand: 132 of 2,000."""
    return int(binom.ppf(0.999, runs, 0.05))


@repeats(400, 2000)
@pytest.mark.parametrize(
    ("size", "owners", "levels"), [(100, 12, 3), (100, 12, 10**6), (1000, 3, 30), (1000, 3, 10**6)]
)
def test_values_the_release_never_saw_are_rarely_taken_for_a_leak(
    size: int, owners: int, levels: int, runs: int
) -> None:
    """A favourite order of its own, with ties where there are few levels; 24 values of 100 are
    rarely all different."""
    generator = np.random.default_rng(size + levels)
    leaks = shown = shared = 0
    for _ in range(runs):
        of, values, present = simulated(size, owners, generator)
        one = found(counted(generator.integers(levels, size=size) * 1.0, values), of)
        leaks += one.p_value is not None and one.p_value <= 0.05
        shown += one.epsilon_lower is not None and one.epsilon_lower.value > 0
        shared += len(set(values)) < len(values)
        assert (one.epsilon_lower is None) == (not present.any())
    assert max(leaks, shown) <= allowed(runs)
    if levels == 10**6:
        assert leaks > 0.01 * runs  # the test is not idle
    assert size > 100 or shared > 0.9 * runs


@repeats(400, 2000)
def test_ranks_that_share_their_references_are_rarely_taken_for_a_leak(runs: int) -> None:
    """Forty references for all: if they happen to be unlikely ones, all secrets look known."""
    generator = np.random.default_rng(3)
    leaks = shown = 0
    for _ in range(runs):
        of, values, _ = simulated(1000, 12, generator)
        scores = generator.permutation(1000)
        references = scores[generator.integers(1000, size=40)]
        worst = 1.0 + (references >= scores[values][:, None]).sum(axis=1)
        columns = [worst, worst, worst, worst, np.full(24, 41.0), worst]
        one = found(Ranks(*columns, np.full(24, NAN), np.full(24, NAN)), of)
        leaks += one.p_value is not None and one.p_value <= 0.05
        shown += one.epsilon_lower is not None and one.epsilon_lower.value > 0
    assert max(leaks, shown) <= allowed(runs)


@repeats(400, 2000)
@pytest.mark.parametrize(
    ("epsilon", "owners"), [(0.5, 1), (0.5, 9), (2.0, 1), (2.0, 2), (4.0, 2), (4.0, 9)]
)
def test_randomised_response_over_the_space_is_bounded_from_below(
    epsilon: float, owners: int, runs: int
) -> None:
    """Everybody reports the own value with probability p = e^ε/(e^ε + k − 1), else any other;
    whoever is absent reports anything. A candidate's score is how often it was reported: nearly
    all of them tie. With q = (1 − p)/(k − 1), leaving the user out changes the probability of a
    report by a factor of at most max(p k, 1/(q k))."""
    k, generator = 100, np.random.default_rng(int(10 * epsilon) + owners)
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    q = (1 - p) / (k - 1)
    truth = math.log(max(p * k, 1 / (q * k)))
    above = bounds = 0
    for _ in range(runs):
        of, values, present = simulated(k, owners, generator)
        own = values[::2]
        honest = present & (generator.random(owners) < p)
        other = (own + generator.integers(1, k, size=owners)) % k
        anything = generator.integers(k, size=owners)
        reports = np.where(honest, own, np.where(present, other, anything))
        one = found(counted(np.bincount(reports, minlength=k) * 1.0, values), of)
        if one.epsilon_lower is not None:
            bounds += 1
            above += one.epsilon_lower.value > truth
    assert bounds > 0.4 * runs
    assert above <= binom.ppf(0.999, bounds, 0.05)


@repeats(400, 2000)
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_the_bound_on_one_secret_is_attained(epsilon: float, runs: int) -> None:
    """A set of t candidates that holds the secret with probability e^ε t/k, and else any t: if
    e^ε t/k = 0.05, the bound is ε to the hair, one time in twenty."""
    k, generator = 1000, np.random.default_rng(int(10 * epsilon))
    t = round(0.05 * k / math.exp(epsilon))
    truth = math.log(0.05 * k / t)  # where t was rounded
    hit = 0
    secrets = pairs([("000", "001")])
    of = case(secrets, [True])
    for _ in range(runs):
        scores = np.zeros(k)
        inside = generator.random() < 0.05
        scores[2 : 2 + t - inside] = 1.0
        scores[0] = float(inside)
        bound = found(counted(scores, np.array([0, 1])), of).epsilon_lower
        assert bound is not None
        assert bound.value == (pytest.approx(math.log(0.05 * 999 / t)) if inside else 0.0)
        hit += bound.value > truth - 0.01
    assert abs(hit - 0.05 * runs) < 4 * math.sqrt(0.05 * 0.95 * runs)


def test_a_shared_value_says_nothing_of_either_owner() -> None:
    """The release knows 007 by heart. u0, trained on, and u1, not, both drew it."""
    scores = np.arange(1000.0)
    scores[7] = 10**6
    secrets = pairs([("007", "001"), ("007", "002"), ("999", "003")])
    values = np.array([7, 1, 7, 2, 999, 3])
    one = found(counted(scores, values), case(secrets, [True, False, True]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.n == 2 and one.epsilon_lower.rank == 1  # u2's 999 alone is known
    assert one.control is None  # u1's value stands in the text, for another: it is no twin
    alone = found(counted(scores, values[:4]), case(secrets[:4], [True, False]))
    assert alone.epsilon_lower is not None and alone.epsilon_lower.value == 0.0
    assert alone.p_value == pytest.approx(1 / 1000)  # a fair draw may well be a shared one


def test_ranks_known_within_bounds_may_show_a_leak_but_earn_no_silence() -> None:
    """All rank 1 of 1,000, two of four not counted to the end."""
    secrets, present = crowd(4), [True] * 4
    for exact, earned in (([1.0] * 8, True), ([1.0] * 6 + [0.0] * 2, False)):
        evidence = ranks([1] * 4, exact=np.array(exact))
        one = found(evidence, case(secrets, present))
        assert one.p_value is not None and one.p_value < 1e-3
        assert (one.least_p < 0.05) == earned
        assert ("bounds" in one.untested) != earned
