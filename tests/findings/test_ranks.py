"""Exposure, from ranks to findings: bits and bounds by hand, the null, and releases of known ε."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Ranks
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space, digits
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import IntervalKind
from tests.findings.by_hand import answered, judged
from tests.findings.closeness import six
from tests.simulations import more, repeats

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


def both(evidence: Ranks, of: Case) -> tuple[Measurement, Measurement]:
    """The median and the largest exposure of the only tier."""
    median, largest = measurements_of([evidence], of)
    assert largest.metric == f"largest_{median.metric}"
    assert largest.test != median.test and median.sides == largest.sides == 2
    return median, largest


def found(evidence: Ranks, of: Case) -> Measurement:
    return both(evidence, of)[0]


def medians(evidence: Ranks, of: Case) -> list[Measurement]:
    return [f for f in measurements_of([evidence], of) if not f.metric.startswith("largest_")]


def fisher(share: float, n: int = 1) -> float:
    """P[a product of n uniform values is at most this], e^−x Σ x^i/i!, twice: two-sided."""
    x = -math.log(share)
    return min(1.0, 2 * share * sum(x**i / math.factorial(i) for i in range(n)))


# --- by hand


def test_three_ranks_by_hand() -> None:
    """1, 10 and 100 of a thousand: 9.97, 6.64 and 3.32 bits. Fisher: x = 3 ln 10 + 2 ln 10 + ln 10,
    and 2 P[Gamma(3) ≥ x] = 2 e^−x (1 + x + x²/2). The lower median is at most 10 with probability
    at most 2 e^ε 10/1000."""
    one = found(ranks([1, 100, 10, 250, 4]), case(crowd(5), [True] * 3 + [False] * 2))
    bits = [math.log2(1000 / r) for r in (1, 100, 10, 250, 4)]
    assert one.metric == "exposure_1_copy" and one.unit == "bits"
    assert (one.interval.value, one.interval.n) == (six(bits[2]), 3)
    assert one.control is not None and one.control.n == 2
    assert one.control.value == six((bits[3] + bits[4]) / 2)
    assert one.chance == six(math.log2(1000 / 500.5))
    x = 6 * math.log(10)
    assert one.p_value == six(2 * math.exp(-x) * (1 + x + x * x / 2))
    bound = one.epsilon_lower
    assert bound is not None and bound.value == six(math.log(0.025 * 1000 / 10))
    assert (bound.rank, bound.space, bound.n, bound.method) == (10, 1000, 3, "rank")
    assert (bound.unit, bound.relation, bound.hypothesis) == ("user", "add_or_remove", "none")
    assert one.power.largest_epsilon == six(math.log(0.025 * 1000))
    assert one.exposures is not None
    assert one.exposures.planted == six(sorted(bits[:3]))
    assert one.exposures.twins == six(sorted(bits[3:]))
    assert one.space == 1000
    assert one.observation == (
        "Median exposure 6.64 of 9.97 bits (twins 4.98, never seen 0.999); 3 ranks, all exact."
    )


def test_one_rank_is_tested_at_the_whole_level() -> None:
    one = found(ranks([2, 900]), case(crowd(2), [True, False]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(0.05 * 1000 / 2))
    assert one.p_value == six(2 * 2 / 1000)  # two ranks at either end
    assert one.power.largest_epsilon == six(math.log(50))
    of_five = case(crowd(2), [True, False], claim_tests=5)
    largest_claim = found(ranks([2, 900]), of_five).power.largest_epsilon
    assert largest_claim == six(math.log(10))  # a claim is tested at 0.05/5


def test_delta_is_taken_from_the_level() -> None:
    one = found(ranks([2, 900]), case(crowd(2), [True, False], delta=0.01))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(0.04 * 1000 / 2))


def test_ties_share_a_rank_in_figures_and_count_against_the_secret_in_epsilon() -> None:
    """Ten alike from rank 1 on: the mid-rank is 5.5, the worst 10."""
    evidence = ranks([1, 900], middle=[5.5, 5.5, 900, 900], worst=10, whole=10)
    one = found(evidence, case(crowd(2), [True, False]))
    assert one.interval.value == six(math.log2(1000 / 5.5))
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 10
    assert one.p_value == six(2 * 10 / 1000)


def test_rivals_leave_the_other_secrets_out_but_the_test_does_not() -> None:
    """Rank 1 among 990 rivals and itself, rank 8 among all: ε from the one, p from the other."""
    one = found(ranks([1, 900], spaces=991, whole=8), case(crowd(2), [True, False]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(0.05 * 991))
    assert one.p_value == six(2 * 8 / 1000)
    assert one.interval.value == six(math.log2(991))


def test_all_ranks_one_is_the_smallest_p_and_the_largest_epsilon() -> None:
    one = found(ranks([1] * 8), case(crowd(8), [True] * 8))
    assert one.interval.value == six(math.log2(1000))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(0.025 * 1000))
    assert one.epsilon_lower.value == six(one.power.largest_epsilon)
    assert one.p_value == six(fisher(1000.0**-8, 8))
    assert one.control is None


def test_six_ranks_have_an_interval_and_five_the_whole_range() -> None:
    """2/2^6 < 0.05 < 2/2^5: of six, the smallest and the largest."""
    chosen = [1, 2, 4, 8, 16, 32]
    all_six = found(ranks(chosen), case(crowd(6), [True] * 6)).interval
    assert all_six.ci == six((math.log2(1000 / 32), math.log2(1000)))
    five = found(ranks(chosen[:5]), case(crowd(5), [True] * 5)).interval
    assert five.ci == six((0.0, math.log2(1000)))
    assert five.value == six(math.log2(1000 / 4)) and "whole range" in five.method


def test_tiers_of_copies_are_not_pooled() -> None:
    secrets = crowd(6, copies=(1, 4, 16))
    evidence = ranks([1, 2, 3, 900, 800, 700])
    of = case(secrets, [True] * 3 + [False] * 3)
    names = ["exposure_1_copy", "exposure_4_copies", "exposure_16_copies"]
    every = [name for tier in names for name in (tier, f"largest_{tier}")]
    assert [f.metric for f in measurements_of([evidence], of)] == every
    assert len({f.test for f in measurements_of([evidence], of)}) == 6
    found_ = medians(evidence, of)
    for finding, rank, beside in zip(found_, (1, 2, 3), (900, 800, 700), strict=True):
        assert finding.interval.n == finding.control.n == 1  # type: ignore[union-attr]
        assert finding.epsilon_lower is not None and finding.epsilon_lower.rank == rank
        assert finding.control is not None
        assert finding.control.value == six(math.log2(1000 / beside))


def test_spaces_of_different_sizes_are_not_pooled_either() -> None:
    small = [Secret("id", "x#", v, ".", digits(2), 1, "u2", s) for s, v in enumerate(("01", "02"))]
    secrets = [*crowd(2), *small]
    evidence = ranks([1, 900, 1], spaces=[1000] * 4 + [100] * 2)
    found_ = medians(evidence, case(secrets, [True, False, True]))
    assert [f.metric for f in found_] == ["exposure_1_copy_of_100", "exposure_1_copy_of_1000"]
    largest = [f.power.largest_epsilon for f in found_]
    assert largest == [six(math.log(5)), six(math.log(50))]


# --- sampled, fitted, bounded, unread


def test_what_was_fitted_is_shown_and_never_counted() -> None:
    """9 bits by the fit, which two ranks of 101 cannot show; above 9.97 there is nothing."""
    sampled = {"spaces": 101, "exact": NAN}
    evidence = ranks([1, 1, 50], fitted=[9, 0, 99, 0, NAN, 0], **sampled)
    one = found(evidence, case(crowd(3), [True, True, False]))
    assert one.interval.value == six((9 + math.log2(1000)) / 2)
    assert one.epsilon_lower is not None and one.epsilon_lower.space == 101
    assert one.epsilon_lower.value == six(math.log(0.025 * 101))
    assert one.p_value == six(4 / 101)  # the lower of two, in any dependence, two-sided
    assert one.control is not None and one.control.value == six(math.log2(101 / 50))
    assert "from 100 sampled candidates" in one.observation


@pytest.mark.parametrize(("n", "median"), [(1, 5), (2, 5), (3, 20), (4, 20), (5, 30), (6, 30)])
def test_sampled_ranks_are_tested_by_their_lower_median(n: int, median: int) -> None:
    """At least half of n ranks are up to t with probability at most 2 t/101; from both ends, 4."""
    chosen = [5, 20, 30, 40, 45, 48]
    for turned in (False, True):
        columns = [102 - c if turned else c for c in chosen[:n]]
        one = found(ranks(columns, spaces=101, exact=NAN), case(crowd(n), [True] * n))
        times = 2 if n == 1 else 4
        assert one.p_value == six(min(1.0, times * median / 101))
        assert one.least_p == six(times / 101)


def test_more_references_than_candidates_are_no_larger_space() -> None:
    """A thousand draws out of ten: rank 1 of 1,001 still is one of ten."""
    secrets = pairs([("1", "2"), ("3", "4")], digits(1))
    one = found(ranks([1, 1], spaces=1001, exact=NAN), case(secrets, [True, False]))
    assert one.epsilon_lower is not None
    assert (one.epsilon_lower.space, one.epsilon_lower.value) == (10, 0.0)
    assert one.least_p == six(2 / 10)  # convinces nobody
    assert one.interval.value == six(math.log2(10))


def test_certified_bounds_are_used_where_they_are_safe() -> None:
    evidence = ranks([1, 900], better=1, middle=6, worst=40, whole=45, exact=0)
    one = found(evidence, case(crowd(2), [True, False]))
    assert one.interval.value == six(math.log2(1000 / 6))
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 40
    assert one.p_value == six(2 * 45 / 1000)
    assert "0 exact, the others within bounds" in one.observation


def test_bounds_without_any_estimate_say_what_they_bound() -> None:
    """Nobody sampled: no figure, but between 1 and 250 of a thousand is 2 to 9.97 bits."""
    columns = {"better": 1, "worst": 250, "whole": 250, "middle": NAN, "exact": 0}
    one = found(ranks([9, 9], **columns), case(crowd(2), [True, False]))
    assert one.interval.value is None and one.exposures is None and one.control is None
    assert one.observation.endswith("between 2 and 9.97 bits.")
    unknown = found(ranks([9, 9], **(columns | {"worst": 1000})), case(crowd(2), [True, False]))
    assert unknown.observation.endswith("between 0 and 9.97 bits.")
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == 250


def test_bounds_of_several_span_from_the_worst_to_the_best() -> None:
    """Two planted of a thousand, each within bounds: the worst place is 250, the best is 8."""
    columns = {"better": np.array([8, 1, 100, 1]), "worst": np.array([10, 1, 250, 1])}
    evidence = ranks([9, 9], **columns, middle=NAN, exact=0)
    one = found(evidence, case(crowd(2), [True, True]))
    assert one.observation.endswith("between 2 and 6.97 bits.")  # log2(1000 / 250), log2(1000 / 8)


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
    assert (nothing.power.largest_epsilon, nothing.power.n, nothing.least_p) == (None, 0, 1.0)


@pytest.mark.parametrize("present", [[True] * 4, [False] * 4, [True], [False]])
def test_without_twins_or_without_planted_there_is_one_side(present: list[bool]) -> None:
    one = found(ranks([3] * len(present)), case(crowd(len(present)), present))
    assert (one.control is None) == present[0]
    assert (one.interval.value is None) != present[0]
    assert (one.epsilon_lower is None) != present[0]


def test_secrets_ranked_last_depend_on_the_data_as_well() -> None:
    """Behind a block list all six are the last of a thousand: as improbable as all six first."""
    of = case(crowd(8), [True] * 6 + [False] * 2)
    first, last = (found(ranks([rank] * 6 + [400, 600]), of) for rank in (1, 1000))
    assert first.p_value == six(fisher(1000.0**-6, 6)) == first.least_p
    assert last.p_value == first.p_value
    assert last.interval.value == 0.0
    assert last.epsilon_lower is not None and last.epsilon_lower.value == 0.0  # guesses were "in"
    result = answered(last, no_guarantee("it is a test"))
    assert result.leaked == "leak" and "this figure alone hides it" in result.sentence
    middle = found(ranks([400, 600, 550, 450, 500, 520, 400, 600]), of)
    assert middle.p_value is not None and middle.p_value > 0.5


def test_ties_at_the_far_end_count_against_the_secret_too() -> None:
    """Ten alike are the last: the secret may be the tenth from below, and no better."""
    columns = {"better": [991, 991, 1, 1], "worst": 1000, "whole": 1000}
    median, largest = both(ranks([995, 900], **columns), case(crowd(2), [True, False]))
    assert median.p_value == six(2 * 10 / 1000) == largest.p_value


def test_no_secrets_no_findings() -> None:
    assert measurements_of([Ranks(*[np.array([])] * 8)], case([], [])) == []


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
    assert all(
        f.interval.value is None for f in measurements_of([evidence], case(secrets, [True] * 2))
    )


@pytest.mark.parametrize(
    ("size", "n", "tests", "tested"),
    [(10, 1, 1, False), (10, 3, 1, False), (10, 4, 1, True), (100, 1, 1, True), (100, 1, 3, False)],
)
def test_so_few_that_no_rank_could_convince_are_not_tested(
    size: int, n: int, tests: int, tested: bool
) -> None:
    """All of them rank 1: 2 e^−x Σ x^i/i!, x = n ln |R|: .2, .064, .036; .02 against .05/3."""
    space = digits(round(math.log10(size)))
    secrets = pairs([(str(i), str(i)) for i in range(n)], space)
    of = case(secrets, [True] * n, tests=tests)
    one = found(ranks([1] * n, seconds=1, spaces=size), of)
    assert (one.least_p * tests < 0.05) == tested
    assert one.p_value == six(one.least_p)  # all of them are rank 1


@pytest.mark.parametrize(
    ("access", "stronger"), [(Access.DISTRIBUTION, False), (Access.SCORE, True)]
)
def test_ranks_need_distributions(access: Access, stronger: bool) -> None:
    one = found(ranks([1, 2]), case(crowd(2), [True, False], access=access))
    assert (one.access, one.stronger_than_release) == ("distribution", stronger)


# --- the largest exposure


def test_the_best_of_four_ranks_by_hand() -> None:
    """3 of a thousand is the best of four, and 1 + 1000 − 998 = 3 the best from below: 8·3/1000.
    Of four ranks by chance the best is above 159 in half of all runs: 1 − (1 − 0.159)^4 = ½."""
    firsts = [3, 400, 500, 600, 20, 700]
    of = case(crowd(6), [True] * 4 + [False] * 2)
    median, largest = both(ranks(firsts), of)
    assert (largest.metric, largest.unit) == ("largest_exposure_1_copy", "bits")
    bits = math.log2(1000 / 3)
    assert largest.interval.value == six(bits)
    assert largest.interval.ci == six((bits, bits))
    assert (largest.interval.n, largest.interval.kind) == (4, IntervalKind.EXACT)
    assert largest.control is not None and largest.control.n == 2
    assert largest.control.value == six(math.log2(1000 / 20))
    assert largest.p_value == six(8 * 3 / 1000)
    assert largest.least_p == six(8 / 1000)
    assert largest.chance == six(-math.log2(1 - 0.5 ** (1 / 4)))
    assert largest.observation == ("The largest of 4 exposures is 8.38 bits (of 2 twins 5.64).")
    assert (largest.epsilon_lower, largest.exposures) == (None, None)
    assert (largest.power.largest_epsilon, largest.power.n) == (None, 4)
    assert median.p_value is not None and median.p_value > 0.05
    turned = both(ranks([998 if r == 3 else r for r in firsts]), of)[1]
    assert turned.p_value == six(8 * 3 / 1000)  # the last, as well
    assert turned.interval.value == six(math.log2(1000 / 400))


def test_one_secret_of_sixty_that_leaks_completely_is_found_and_moves_no_median() -> None:
    """Rank 1 of 10⁵ among 60: p = 120/10⁵, below 0.05 of 18 tests; a median of one bit."""
    firsts = np.random.default_rng(0).permutation(np.linspace(800, 99_200, 120))
    of = case(crowd(120, digits(5)), [True] * 60 + [False] * 60, tests=18)
    nobody = both(ranks(firsts, spaces=1e5), of)
    firsts[17] = 1
    median, largest = both(ranks(firsts, spaces=1e5), of)
    assert largest.p_value == six(120 / 1e5)
    assert largest.interval.value == six(math.log2(1e5))
    assert largest.chance == pytest.approx(6.45, abs=0.01)
    sensitive = {(f.attack, f.metric): True for f in (median, largest)}
    words = [f.leaked for f in judged([median, largest], no_guarantee("x"), sensitive, tests=18)]
    assert words[0] != "leak" and words[1] == "leak"
    assert median.interval.value == pytest.approx(1.0, abs=0.35)
    silent = judged(nobody, no_guarantee("x"), sensitive, tests=18)
    assert [f.leaked for f in silent] == ["no leak found"] * 2


def test_without_twins_the_largest_of_chance_is_not_compared_with_its_own_median() -> None:
    """Half of all releases that know nothing exceed it: that is no reason for any doubt."""
    sensitive = {("exposure", "largest_exposure_1_copy"): True}
    for best in (100, 30):  # of eight ranks by chance the best is above 83 in half of all runs
        evidence = ranks([best, *range(200, 900, 100)])
        largest = both(evidence, case(crowd(8), [True] * 8))[1]
        assert (largest.control, largest.chance) == (None, None)
        result = answered(largest, no_guarantee("it is a test"), sensitive)
        assert (result.p_value or 0) > 0.05 and result.leaked == "no leak found"


def test_the_largest_within_bounds_says_both_ends_and_earns_no_silence() -> None:
    """Between rank 1 and 250 of a thousand; tested and shown by the worse end of each."""
    columns = {"better": 1, "worst": 250, "whole": 260, "middle": NAN, "exact": 0}
    of = case(crowd(3), [True, True, False])
    largest = both(ranks([9] * 3, **columns), of)[1]
    assert largest.interval.value == six(2.0)
    assert largest.interval.ci == six((2.0, math.log2(1000)))
    assert largest.observation == (
        "The largest of 2 exposures is between 2 and 9.97 bits (of 1 twins between 2 and 9.97)."
    )
    assert largest.p_value == 1.0  # 4·260/1000
    assert largest.least_p == 1.0 and "within bounds only" in largest.untested
    near = both(ranks([9] * 3, **(columns | {"whole": 2, "worst": 2})), of)[1]
    assert near.p_value == six(4 * 2 / 1000) and near.least_p == 1.0
    last = {"better": 999, "worst": 1000, "whole": 1000, "exact": 0}
    far = both(ranks([999] * 3, **last), of)[1]
    assert far.p_value == six(4 * 2 / 1000) and far.interval.value == 0.0


def test_the_largest_of_sampled_ranks_is_certain_within_the_samples_only() -> None:
    """Rank 1 of 1,001 of a million: 10 bits are seen, at least 7.9 and perhaps 20 are there."""
    secrets = pairs([(f"{i:06}", f"{i + 9:06}") for i in (10, 20, 40)], digits(6))
    evidence = ranks([1, 500, 3], spaces=1001, exact=NAN)
    largest = both(evidence, case(secrets, [True, True, False]))[1]
    low = -math.log2(1 - 0.0125 ** (1 / 1000))  # no reference of 1,000 at (1 − p)^1000 = .025/2
    assert largest.interval.value == six(math.log2(1001))
    assert largest.interval.ci == six((low, math.log2(10**6)))
    assert largest.interval.kind == IntervalKind.OTHER
    assert "Clopper-Pearson" in largest.interval.method
    assert "between 7.84 and 19.9 bits" in largest.observation
    assert largest.p_value == six(4 / 1001)
    few = both(ranks([20, 500, 3], spaces=1001, exact=NAN), case(secrets, [True, True, False]))[1]
    share = clopper_pearson(19, 1000, 1 - 0.025)
    assert few.interval.ci == six((-math.log2(share.high), -math.log2(share.low)))  # type: ignore[arg-type]


@repeats(100, 3000)
def test_the_interval_of_sampled_ranks_holds_the_largest_exposure(runs: int) -> None:
    generator, missed, narrow = np.random.default_rng(6), 0, 0
    for _ in range(runs):
        of, values, present = simulated(1000, 5, generator)
        scores = generator.permutation(1000)
        interval = both(sampled(scores, values, 200, generator), of)[1].interval
        if interval.value is None or interval.ci is None:
            continue
        ranked = 1.0 + (scores > scores[values[::2][present]][:, None]).sum(axis=1)
        truth = math.log2(1000 / ranked.min())
        missed += not interval.ci[0] - 1e-9 <= truth <= interval.ci[1] + 1e-9
        narrow += interval.ci[1] < math.log2(1000)
        assert interval.ci[0] <= interval.value <= interval.ci[1]
    assert missed <= allowed(runs)
    assert narrow > runs / 2


def test_a_limit_on_the_largest_exposure_does_not_pass_because_so_few_were_sampled() -> None:
    """20 bits are 20 bits, though a thousand references show no more than ten."""
    secrets = pairs([("000010", "000020"), ("000030", "000040")], digits(6))
    of = case(secrets, [True, False])
    largest = both(ranks([1, 400], spaces=1001, exact=NAN), of)[1]
    assert largest.interval.high is not None and largest.interval.high > 15


def test_nobody_planted_has_no_largest_exposure() -> None:
    largest = both(ranks([3] * 4), case(crowd(4), [False] * 4))[1]
    assert (largest.interval.value, largest.p_value, largest.least_p) == (None, None, 1.0)
    assert largest.control is not None and (largest.observation, largest.chance) == ("", None)


def test_a_shared_value_is_no_largest_exposure_but_may_be_one() -> None:
    """007, which the release knows by heart, is u0's and u1's: it counts for nobody, and a limit on
    the largest exposure does not pass."""
    scores = np.arange(1000.0)
    scores[7] = 10**6
    secrets = pairs([("007", "001"), ("007", "002"), ("500", "003")])
    evidence = counted(scores, np.array([7, 1, 7, 2, 500, 3]))
    largest = both(evidence, case(secrets, [True, False, True]))[1]
    assert largest.interval.value == pytest.approx(1.0, abs=0.01)  # u2's
    assert largest.interval.high == six(math.log2(996))


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


@repeats(120, 2000)
@pytest.mark.parametrize(
    ("size", "owners", "levels"),
    [(100, 12, 3), (1000, 3, 10**6), *more((100, 12, 10**6), (1000, 3, 30))],
)
def test_values_the_release_never_saw_are_rarely_taken_for_a_leak(
    size: int, owners: int, levels: int, runs: int
) -> None:
    """A favourite order of its own, with ties where there are few levels; 24 values of 100 are
    rarely all different."""
    generator = np.random.default_rng(size + levels)
    leaks = largest_leaks = at_one_end = shown = shared = 0
    for _ in range(runs):
        of, values, present = simulated(size, owners, generator)
        one, largest = both(counted(generator.integers(levels, size=size) * 1.0, values), of)
        leaks += one.p_value is not None and one.p_value <= 0.05
        largest_leaks += largest.p_value is not None and largest.p_value <= 0.05
        at_one_end += one.p_value is not None and one.p_value <= 0.1
        shown += one.epsilon_lower is not None and one.epsilon_lower.value > 0
        shared += len(set(values)) < len(values)
        assert (one.epsilon_lower is None) == (not present.any())
    assert max(leaks, largest_leaks, shown) <= allowed(runs)
    if levels == 10**6:  # the tests are not idle; of so few values, the best is rank 1 in 6 %
        assert at_one_end > 0.01 * runs
        assert size == 100 or largest_leaks > 0.01 * runs
    assert size > 100 or shared > 0.9 * runs


@repeats(120, 2000)
def test_ranks_that_share_their_references_are_rarely_taken_for_a_leak(runs: int) -> None:
    """Forty references for all: if they happen to be unlikely ones, all secrets look known."""
    generator = np.random.default_rng(3)
    leaks = largest_leaks = shown = 0
    for _ in range(runs):
        of, values, _ = simulated(1000, 12, generator)
        one, largest = both(sampled(generator.permutation(1000), values, 40, generator), of)
        leaks += one.p_value is not None and one.p_value <= 0.05
        largest_leaks += largest.p_value is not None and largest.p_value <= 0.05
        shown += one.epsilon_lower is not None and one.epsilon_lower.value > 0
    assert max(leaks, largest_leaks, shown) <= allowed(runs)


@repeats(100, 2000)
@pytest.mark.parametrize(
    ("size", "references", "owners"), [(10, 100, 6), (100, 1000, 1), (100, 1000, 9), (1000, 999, 2)]
)
def test_sampled_ranks_are_rarely_taken_for_a_leak_however_many_the_references(
    size: int, references: int, owners: int, runs: int
) -> None:
    """Also where there are more of them than candidates: rank 500 of 1,001 is no last of 100."""
    generator = np.random.default_rng(size + owners)
    leaks = np.zeros(2)
    for _ in range(runs):
        of, values, _ = simulated(size, owners, generator)
        evidence = sampled(generator.permutation(size), values, references, generator)
        leaks += [f.p_value is not None and f.p_value <= 0.05 for f in both(evidence, of)]
    assert leaks.max() <= allowed(runs)


@repeats(100, 2000)
def test_counted_and_sampled_ranks_of_one_tier_are_rarely_taken_for_a_leak(runs: int) -> None:
    """Half of the secrets were counted out of 10,000, half were sampled: rank 5,000 is no last of
    41."""
    generator = np.random.default_rng(12)
    leaks = np.zeros(2)
    for _ in range(runs):
        of, values, _ = simulated(10_000, 8, generator)
        scores = generator.permutation(10_000)
        whole, part = counted(scores * 1.0, values), sampled(scores, values, 40, generator)
        mixed = [
            np.where(np.arange(16) < 8, getattr(whole, f.name), getattr(part, f.name))
            for f in dataclasses.fields(Ranks)
            if f.type == "np.ndarray"
        ]
        leaks += [f.p_value is not None and f.p_value <= 0.05 for f in both(Ranks(*mixed), of)]
    assert leaks.max() <= allowed(runs)


def sampled(
    scores: np.ndarray, values: np.ndarray, references: int, generator: np.random.Generator
) -> Ranks:
    """Ranks among references drawn with replacement and shared by all secrets; scores: (|R|,)."""
    drawn = scores[generator.integers(len(scores), size=references)]
    worst = 1.0 + (drawn >= scores[values][:, None]).sum(axis=1)
    better = 1.0 + (drawn > scores[values][:, None]).sum(axis=1)
    nothing, spaces = np.full(len(values), NAN), np.full(len(values), references + 1.0)
    middle = (better + worst) / 2
    return Ranks(scores[values] * 1.0, better, worst, middle, spaces, worst, nothing, nothing)


@repeats(120, 2000)
@pytest.mark.parametrize(
    ("epsilon", "owners"), [(0.5, 9), (4.0, 2), *more((0.5, 1), (2.0, 1), (2.0, 2), (4.0, 9))]
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


@repeats(120, 2000)
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
        assert bound.value == (six(math.log(0.05 * 999 / t)) if inside else 0.0)
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
    assert alone.p_value == six(2 / 1000)  # a fair draw may well be a shared one


def test_ranks_known_within_bounds_may_show_a_leak_but_earn_no_silence() -> None:
    """All rank 1 of 1,000, two of four not counted to the end."""
    secrets, present = crowd(4), [True] * 4
    for exact, earned in (([1.0] * 8, True), ([1.0] * 6 + [0.0] * 2, False)):
        evidence = ranks([1] * 4, exact=np.array(exact))
        one = found(evidence, case(secrets, present))
        assert one.p_value is not None and one.p_value < 1e-3
        assert (one.least_p < 0.05) == earned
        assert ("bounds" in one.untested) != earned
