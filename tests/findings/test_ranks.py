"""Exposure, from ranks to findings: bits and bounds by hand, the null, and releases of known ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Ranks
from audit.core.guarantee import no_guarantee
from audit.core.secret import digits
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import IntervalKind
from tests.findings import joined
from tests.findings.by_hand import answered, judged
from tests.findings.closeness import figures, six
from tests.findings.joined import NAN, one_value, pairs

THOUSAND = digits(3)
TOP = math.log2(1000)


def crowd(n: int, size: int = 3, **more: Any) -> Any:
    """n owners of two values of so many digits that nobody else has."""
    return joined.codes(n, size, **{"copies": (1,), **more})


def case(secrets: Sequence[Any], present: Sequence[Any], **more: Any) -> Case:
    """Everybody's first value is the chosen one."""
    return joined.case(secrets, present, attack="exposure", **more)


def among(*present: bool, **more: Any) -> Case:
    """Owners of three digits each."""
    return case(crowd(len(present)), present, **more)


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


def bits(rank: float, space: float = 1000) -> Any:
    return six(math.log2(space / rank))


# --- by hand


def test_three_ranks_by_hand() -> None:
    """1, 10 and 100 of a thousand: 9.97, 6.64 and 3.32 bits. Fisher: x = 3 ln 10 + 2 ln 10 + ln 10,
    and 2 P[Gamma(3) ≥ x] = 2 e^−x (1 + x + x²/2). The lower median is at most 10 with probability
    at most 2 e^ε 10/1000."""
    one = found(ranks([1, 100, 10, 250, 4]), among(*[True] * 3, *[False] * 2))
    shown = [math.log2(1000 / r) for r in (1, 100, 10, 250, 4)]
    assert (one.metric, one.unit, one.space) == ("exposure_1_copy", "bits", 1000)
    assert (one.value, one.n) == (six(shown[2]), 3)
    assert one.control is not None and one.control.n == 2
    assert one.control.value == six((shown[3] + shown[4]) / 2)
    assert one.chance == bits(500.5)
    x = 6 * math.log(10)
    assert one.p_value == six(2 * math.exp(-x) * (1 + x + x * x / 2))
    bound = one.epsilon_lower
    assert bound is not None and bound.value == six(math.log(0.025 * 1000 / 10))
    assert (bound.rank, bound.space, bound.n, bound.method) == (10, 1000, 3, "rank")
    assert (bound.unit, bound.relation, bound.hypothesis) == ("user", "add_or_remove", "none")
    assert one.power.largest_epsilon == six(math.log(0.025 * 1000))
    assert one.exposures is not None
    assert one.exposures.planted == six(sorted(shown[:3]))
    assert one.exposures.twins == six(sorted(shown[3:]))
    assert figures(one.observation) == [6.64, 9.97, 4.98, 0.999, 3]
    assert "all exact" in one.observation


@pytest.mark.parametrize(
    ("columns", "rank", "whole", "space", "shown"),
    [
        ({}, 2, 2, 1000, 2),
        # ten alike from rank 1 on: the mid-rank is 5.5, the worst 10
        ({"middle": 5.5, "worst": 10, "whole": 10}, 10, 10, 1000, 5.5),
        # rank 1 among 990 rivals and itself, 8 among all: ε from the one, p from the other
        ({"better": 1, "worst": 1, "middle": 1, "spaces": 991, "whole": 8}, 1, 8, 991, 1),
        # certified bounds are used where they are safe
        ({"better": 1, "middle": 6, "worst": 40, "whole": 45, "exact": 0}, 40, 45, 1000, 6),
    ],
)
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_one_rank_is_tested_at_the_whole_level(
    columns: dict[str, Any], rank: float, whole: float, space: float, shown: float, delta: float
) -> None:
    """Ties and what is unknown count against the secret; δ is taken from the level."""
    one = found(ranks([2, 900], **columns), among(True, False, delta=delta))
    bound = one.epsilon_lower
    assert bound is not None and (bound.rank, bound.space) == (rank, space)
    assert bound.value == six(math.log((0.05 - delta) * space / rank))
    assert one.p_value == six(2 * whole / 1000)  # as many ranks at either end
    assert one.value == bits(shown, space)
    assert ("0 exact, the others within bounds" in one.observation) == ("exact" in columns)
    of_five = found(ranks([2, 900], **columns), among(True, False, delta=delta, claim_tests=5))
    expected = math.log((0.01 - delta) * space) if delta < 0.01 else 0.0
    assert of_five.power.largest_epsilon == six(expected)  # a claim is tested at 0.05/5


def test_all_ranks_one_is_the_smallest_p_and_the_largest_epsilon() -> None:
    one = found(ranks([1] * 8), among(*[True] * 8))
    assert one.value == six(TOP) and one.control is None
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(0.025 * 1000))
    assert one.epsilon_lower.value == six(one.power.largest_epsilon)
    assert one.p_value == six(fisher(1000.0**-8, 8)) == one.least_p


def test_six_ranks_have_an_interval_five_none() -> None:
    """2/2^6 < 0.05 < 2/2^5: of six, the smallest and the largest; of five, the whole range."""
    chosen = [1, 2, 4, 8, 16, 32]
    assert found(ranks(chosen), among(*[True] * 6)).ci == six((math.log2(1000 / 32), TOP))
    five = found(ranks(chosen[:5]), among(*[True] * 5))
    assert (five.ci, five.value) == (six((0.0, TOP)), bits(4))
    assert five.interval.kind == IntervalKind.WHOLE_RANGE


def test_tiers_of_copies_and_spaces_are_not_pooled() -> None:
    evidence = ranks([1, 2, 3, 900, 800, 700])
    of = case(crowd(6, copies=(1, 4, 16)), [True] * 3 + [False] * 3)
    names = ["exposure_1_copy", "exposure_4_copies", "exposure_16_copies"]
    every = measurements_of([evidence], of)
    assert [f.metric for f in every] == [n for tier in names for n in (tier, f"largest_{tier}")]
    assert len({f.test for f in every}) == 6
    for one, rank, beside in zip(medians(evidence, of), (1, 2, 3), (900, 800, 700), strict=True):
        assert one.control is not None and one.n == one.control.n == 1
        assert one.epsilon_lower is not None and one.epsilon_lower.rank == rank
        assert one.control.value == bits(beside)
    secrets = [*crowd(2), *crowd(3, 2)[4:]]
    evidence = ranks([1, 900, 1], spaces=[1000] * 4 + [100] * 2)
    found_ = medians(evidence, case(secrets, [True, False, True]))
    assert [f.metric for f in found_] == ["exposure_1_copy_of_100", "exposure_1_copy_of_1000"]
    largest = [f.power.largest_epsilon for f in found_]
    assert largest == [six(math.log(5)), six(math.log(50))]


# --- sampled, fitted, bounded, unread

SAMPLED = {"spaces": 101, "exact": NAN}


def test_fitted_ranks_are_shown_and_never_counted() -> None:
    """9 bits by the fit, which two ranks of 101 cannot show; above 9.97 there is nothing."""
    evidence = ranks([1, 1, 50], fitted=[9, 0, 99, 0, NAN, 0], **SAMPLED)
    one = found(evidence, among(True, True, False))
    assert one.value == six((9 + TOP) / 2)
    assert figures(one.observation)[-1] == 100  # references
    assert one.epsilon_lower is not None and one.epsilon_lower.space == 101
    assert one.epsilon_lower.value == six(math.log(0.025 * 101))
    assert one.p_value == six(4 / 101)  # the lower of two, in any dependence, two-sided
    assert one.control is not None and one.control.value == bits(50, 101)


@pytest.mark.parametrize(("n", "median"), [(1, 5), (2, 5), (3, 20), (4, 20), (5, 30), (6, 30)])
def test_sampled_ranks_are_tested_by_their_lower_median(n: int, median: int) -> None:
    """At least half of n ranks are up to t with probability at most 2 t/101; from both ends, 4."""
    chosen = [5, 20, 30, 40, 45, 48]
    for turned in (False, True):
        columns = [102 - c if turned else c for c in chosen[:n]]
        one = found(ranks(columns, **SAMPLED), among(*[True] * n))
        times = 2 if n == 1 else 4
        assert one.p_value == six(min(1.0, times * median / 101))
        assert one.least_p == six(times / 101)


def test_more_references_than_candidates_enlarge_no_space() -> None:
    """A thousand draws out of ten: rank 1 of 1,001 still is one of ten."""
    secrets = pairs([("1", "2"), ("3", "4")], digits(1))
    one = found(ranks([1, 1], spaces=1001, exact=NAN), case(secrets, [True, False]))
    assert one.epsilon_lower is not None
    assert (one.epsilon_lower.space, one.epsilon_lower.value) == (10, 0.0)
    assert one.least_p == six(2 / 10)  # convinces nobody
    assert one.value == six(math.log2(10))
    middle = found(ranks([500, 1], spaces=1001, exact=NAN), case(secrets, [True, False]))
    assert middle.p_value == 1.0  # rank 500 of 1,001 is no last of ten


def test_counted_rank_beside_a_sampled_one_is_no_last() -> None:
    """Rank 500 of a thousand, and 20 of 101: the lower of both, two-sided."""
    columns = {"spaces": [1000, 1000, 101, 101], "exact": [1, 1, NAN, NAN]}
    assert found(ranks([500, 20], **columns), among(True, True)).p_value == six(4 * 20 / 101)


@pytest.mark.parametrize(
    ("better", "worst", "said"),
    [
        (1, 250, "between 2 and 9.97 bits."),
        (1, 1000, "between 0 and 9.97 bits."),
        ([8, 1, 100, 1], [10, 1, 250, 1], "between 2 and 6.97 bits."),  # the worst, and the best
    ],
)
def test_bounds_without_estimate_span_worst_to_best(better: Any, worst: Any, said: str) -> None:
    """Nobody sampled: no figure, but between 1 and 250 of a thousand is 2 to 9.97 bits."""
    columns = {"better": better, "worst": worst, "middle": NAN, "exact": 0}
    one = found(ranks([9, 9], **columns), among(True, True))
    assert (one.value, one.exposures, one.control) == (None, None, None)
    assert one.observation.endswith(said)
    assert one.epsilon_lower is not None and one.epsilon_lower.rank == np.ravel(worst)[0]


def test_unread_secrets_are_left_out_on_both_sides() -> None:
    column = np.array([1, NAN, NAN, NAN, 7, NAN, NAN, NAN])
    evidence = Ranks(*[column] * 7, np.full(8, NAN))
    evidence.spaces[:] = np.where(np.isnan(column), NAN, 1000)
    one = found(evidence, among(True, True, False, False))
    assert (one.n, one.power.n) == (1, 1)
    assert one.control is not None and one.control.n == 1
    assert one.exposures is not None and len(one.exposures.planted) == 1
    of_names = case(pairs([("Ann", "Ann"), ("Ben", "Ben")], None), [True] * 2)
    assert measurements_of([Ranks(*[np.full(4, NAN)] * 8)], of_names) == []
    assert measurements_of([Ranks(*[np.array([])] * 8)], case([], [])) == []


@pytest.mark.parametrize("present", [[True] * 4, [False] * 4, [True], [False]])
def test_one_side_alone_has_no_other(present: list[bool]) -> None:
    one, largest = both(ranks([3] * len(present)), among(*present))
    assert (one.control is None) == present[0]
    assert (one.value is None) == (one.epsilon_lower is None) != present[0]
    if not present[0]:
        assert (largest.value, largest.p_value, largest.least_p) == (None, None, 1.0)
        assert largest.control is not None and (largest.observation, largest.chance) == ("", None)


def test_last_ranks_depend_on_the_data_as_well() -> None:
    """Behind a block list all six are the last of a thousand: as improbable as all six first."""
    of = among(*[True] * 6, *[False] * 2)
    first, last = (found(ranks([rank] * 6 + [400, 600]), of) for rank in (1, 1000))
    assert last.p_value == first.p_value == six(fisher(1000.0**-6, 6)) == first.least_p
    assert last.value == 0.0
    assert last.epsilon_lower is not None and last.epsilon_lower.value == 0.0  # guesses were "in"
    assert answered(last, no_guarantee("it is a test")).leaked == "leak"
    middle = found(ranks([400, 600, 550, 450, 500, 520, 400, 600]), of)
    assert middle.p_value is not None and middle.p_value > 0.5
    # ten alike are the last: the secret may be the tenth from below, and no better
    columns = {"better": [991, 991, 1, 1], "worst": 1000, "whole": 1000}
    median, largest = both(ranks([995, 900], **columns), among(True, False))
    assert median.p_value == six(2 * 10 / 1000) == largest.p_value


def test_space_of_one_value_shows_nothing() -> None:
    one = found(ranks([1, 1], seconds=1, spaces=1), case(one_value(2), [True, False]))
    assert (one.value, one.chance, one.p_value, one.least_p) == (0.0, 0.0, 1.0, 1.0)
    assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0
    assert one.power.largest_epsilon == 0.0


@pytest.mark.parametrize(
    ("size", "n", "tests", "tested"),
    [(1, 1, 1, False), (1, 3, 1, False), (1, 4, 1, True), (2, 1, 1, True), (2, 1, 3, False)],
)
def test_too_few_ranks_to_convince_are_not_tested(
    size: int, n: int, tests: int, tested: bool
) -> None:
    """All of them rank 1: 2 e^−x Σ x^i/i!, x = n ln |R|: .2, .064, .036; .02 against .05/3."""
    secrets = pairs([(str(i), str(i)) for i in range(n)], digits(size))
    one = found(ranks([1] * n, spaces=10**size), case(secrets, [True] * n, tests=tests))
    assert (one.least_p * tests < 0.05) == tested
    assert one.p_value == six(one.least_p)


# --- the largest exposure


def test_best_of_four_ranks_by_hand() -> None:
    """3 of a thousand is the best of four, and 1 + 1000 − 998 = 3 the best from below: 8·3/1000.
    Of four ranks by chance the best is above 159 in half of all runs: 1 − (1 − 0.159)^4 = ½."""
    firsts = [3, 400, 500, 600, 20, 700]
    of = among(*[True] * 4, *[False] * 2)
    median, largest = both(ranks(firsts), of)
    assert (largest.metric, largest.unit) == ("largest_exposure_1_copy", "bits")
    assert (largest.value, largest.ci) == (bits(3), six((math.log2(1000 / 3),) * 2))
    assert (largest.n, largest.interval.kind) == (4, IntervalKind.EXACT)
    assert largest.control is not None and largest.control.n == 2
    assert largest.control.value == bits(20)
    assert (largest.p_value, largest.least_p) == (six(8 * 3 / 1000), six(8 / 1000))
    assert largest.chance == six(-math.log2(1 - 0.5 ** (1 / 4)))
    assert figures(largest.observation) == [4, 8.38, 2, 5.64]
    assert (largest.epsilon_lower, largest.exposures) == (None, None)
    assert (largest.power.largest_epsilon, largest.power.n) == (None, 4)
    assert median.p_value is not None and median.p_value > 0.05
    turned = both(ranks([998 if r == 3 else r for r in firsts]), of)[1]
    assert turned.p_value == six(8 * 3 / 1000)  # the last, as well
    assert turned.value == bits(400)


def test_one_leaking_secret_of_sixty_moves_no_median() -> None:
    """Rank 1 of 10⁵ among 60: p = 120/10⁵, below 0.05 of 18 tests; a median of one bit."""
    firsts = np.random.default_rng(0).permutation(np.linspace(800, 99_200, 120))
    of = case(crowd(120, 5), [True] * 60 + [False] * 60, tests=18)
    nobody = both(ranks(firsts, spaces=1e5), of)
    firsts[17] = 1
    median, largest = both(ranks(firsts, spaces=1e5), of)
    assert largest.p_value == six(120 / 1e5)
    assert largest.value == bits(1, 1e5)
    assert largest.chance == pytest.approx(6.45, abs=0.01)
    assert median.value == pytest.approx(1.0, abs=0.35)
    sensitive = {(f.attack, f.metric): True for f in (median, largest)}
    words = [
        [f.leaked for f in judged(given, no_guarantee("x"), sensitive, tests=18)]
        for given in ((median, largest), nobody)
    ]
    assert words == [["no leak found", "leak"], ["no leak found"] * 2]


def test_largest_without_twins_is_compared_with_nothing() -> None:
    """Half of all releases that know nothing exceed its own median: no reason for any doubt."""
    sensitive = {("exposure", "largest_exposure_1_copy"): True}
    for best in (100, 30):  # of eight ranks by chance the best is above 83 in half of all runs
        largest = both(ranks([best, *range(200, 900, 100)]), among(*[True] * 8))[1]
        assert (largest.control, largest.chance) == (None, None)
        result = answered(largest, no_guarantee("it is a test"), sensitive)
        assert (result.p_value or 0) > 0.05 and result.leaked == "no leak found"


@pytest.mark.parametrize(
    ("columns", "p", "ends"),
    [
        ({"better": 1, "worst": 250, "whole": 260}, 1.0, (250, 1)),  # 4·260/1000
        ({"better": 1, "worst": 2, "whole": 2}, 4 * 2 / 1000, (2, 1)),
        ({"better": 999, "worst": 1000, "whole": 1000}, 4 * 2 / 1000, (1000, 999)),
    ],
)
def test_largest_within_bounds_earns_no_silence(
    columns: dict[str, Any], p: float, ends: tuple[int, int]
) -> None:
    """Tested and shown by the worse end of each."""
    evidence = ranks([9] * 3, middle=NAN, exact=0, **columns)
    largest = both(evidence, among(True, True, False))[1]
    assert largest.value == bits(ends[0])
    assert largest.ci == six(tuple(math.log2(1000 / end) for end in ends))
    assert largest.p_value == six(p)
    assert largest.least_p == 1.0 and largest.untested


def test_ranks_within_bounds_may_leak_without_silence() -> None:
    """All rank 1 of 1,000, two of four not counted to the end."""
    for exact, earned in (([1.0] * 8, True), ([1.0] * 6 + [0.0] * 2, False)):
        one = found(ranks([1] * 4, exact=np.array(exact)), among(*[True] * 4))
        assert one.p_value is not None and one.p_value < 1e-3
        assert (one.least_p < 0.05) == earned != bool(one.untested)


def test_largest_of_sampled_ranks_has_an_interval() -> None:
    """Rank 1 of 1,001 of a million: 10 bits are seen, at least 7.9 and perhaps 20 are there, so no
    limit passes because so few were sampled."""
    of = case(pairs([(f"{i:06}", f"{i + 9:06}") for i in (10, 20, 40)], digits(6)),
              [True, True, False])  # fmt: skip
    million = {"spaces": 1001, "exact": NAN}
    largest = both(ranks([1, 500, 3], **million), of)[1]
    low = -math.log2(1 - 0.0125 ** (1 / 1000))  # no reference of 1,000 at (1 − p)^1000 = .025/2
    assert largest.value == six(math.log2(1001))
    assert largest.ci == six((low, math.log2(10**6)))
    assert largest.interval.kind == IntervalKind.OTHER
    assert largest.p_value == six(4 / 1001)
    assert figures(largest.observation)[1:3] == [7.84, 19.9]
    few = both(ranks([20, 500, 3], **million), of)[1]
    share = clopper_pearson(19, 1000, 1 - 0.025)
    assert few.ci == six((-math.log2(share.high), -math.log2(share.low)))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("t", [7, 18])
def test_bound_on_one_secret_is_attained(t: int) -> None:
    """A set of t candidates that holds the secret with probability e^ε t/k, and else any t: if
    e^ε t/k = 0.05, the bound is ε to the hair, one time in twenty, and 0 otherwise."""
    of = case(pairs([("000", "001")], THOUSAND), [True])
    for inside in (True, False):
        scores = np.zeros(1000)
        scores[2 : 2 + t - inside] = 1.0
        scores[0] = float(inside)
        bound = found(counted(scores, np.array([0, 1])), of).epsilon_lower
        assert bound is not None
        assert bound.value == (six(math.log(0.05 * 999 / t)) if inside else 0.0)


def test_shared_value_says_nothing_of_either_owner() -> None:
    """The release knows 007 by heart, which u0, trained on, and u1, not, both drew: it counts for
    nobody, and a limit on the largest exposure does not pass."""
    scores = np.arange(1000.0)
    scores[7] = 10**6
    secrets = pairs([("007", "001"), ("007", "002"), ("999", "003")], THOUSAND, copies=(1,))
    values = np.array([7, 1, 7, 2, 999, 3])
    one, largest = both(counted(scores, values), case(secrets, [True, False, True]))
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.n == 2 and one.epsilon_lower.rank == 1  # u2's 999 alone is known
    assert one.control is None  # u1's value stands in the text, for another: it is no twin
    alone = found(counted(scores, values[:4]), case(secrets[:4], [True, False]))
    assert alone.epsilon_lower is not None and alone.epsilon_lower.value == 0.0
    assert alone.p_value == six(2 / 1000)  # a fair draw may well be a shared one
    secrets = pairs([("007", "001"), ("007", "002"), ("500", "003")], THOUSAND, copies=(1,))
    values[4] = 500
    largest = both(counted(scores, values), case(secrets, [True, False, True]))[1]
    assert largest.value == pytest.approx(1.0, abs=0.01)  # u2's
    assert largest.interval.high == six(math.log2(996))
