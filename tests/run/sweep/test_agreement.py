"""What the seeds of a setting say together: no more false alarms than one run, and more power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.findings import stored
from audit.findings.agreement import agreements, leaked_by_setting
from audit.findings.rejections import Family
from audit.findings.shows import Shows, shown, silence_over
from audit.findings.verdict import claim_overall, judge
from audit.results.joined import LEVEL, leaked_overall
from audit.results.schema import (
    ChargeTest,
    Control,
    EpsilonLower,
    FindingResult,
    ReleaseResult,
    Results,
    SeedResult,
    SweepResult,
    to_json,
)
from audit.run.sweep.over_seeds import cells
from audit.statistics.fisher import combined_p_value
from audit.statistics.one_run import epsilon_lower, p_value
from tests import by_hand
from tests.findings.by_hand import by_holm


def finding(test: str, p: float | None, **changes: Any) -> FindingResult:
    fields: dict[str, Any] = {
        "attack": "membership",
        "metric": test,
        "access": "score",
        "unit": "AUC",
        "value": 0.6,
        "ci": (0.4, 0.8),
        "kind": "other",
        "k": None,
        "chance": 0.5,
        "control": None,
        "p_value": p,
        "kinds": ("code",),
        "test": test,
        "claim": "not refuted",
        "claim_sentence": "It holds.",
        "silence": None,
    }
    return by_hand.finding(**{**fields, **changes})


def release(
    findings: Sequence[FindingResult],
    seed: int = 0,
    epsilon: float | None = math.inf,
    tests: int = 0,
    claim_tests: int = 0,
) -> ReleaseResult:
    family = {"tests": tests or len(findings), "claim_tests": claim_tests or tests or len(findings)}
    claim = by_hand.guarantee(epsilon, delta=0.0)
    made: ReleaseResult = by_hand.release(
        "none", claim, *findings, parameters={}, utility={}, seed=seed, **family
    )
    return made


def together(*ps: float | None, tests: int = 1, **changes: Any) -> str:
    """What leaked over seeds with these p-values of one test."""
    seeds = [release([finding("a", p, **changes)], seed=i, tests=tests) for i, p in enumerate(ps)]
    (cell,) = cells(seeds)
    assert cell.leaked == leaked_by_setting(cell.findings, seeds)
    return str(cell.findings[0].leaked)


def test_weak_signs_in_all_seeds_are_a_leak_and_a_strong_one_in_few_of_many_is_not() -> None:
    assert together(0.08, 0.08, 0.08) == "leak"  # 2 × Fisher's 0.019
    assert together(0.6, 0.02, 0.7, 0.5, 0.9) == "no leak found"  # 2 × 5 × 0.02
    assert together(0.6, 0.02, 0.7, 0.5, 0.9, leaked="leak") == "inconclusive"
    assert together(1e-7, 0.7, 0.5, 0.9) == "leak"


def test_silence_needs_every_seed_and_no_sign_of_all_together() -> None:
    assert together(0.3, 0.4, 0.5) == "no leak found"
    assert together(0.03, 0.03, 0.03, tests=40) == "no leak found"  # each seed's p is 1
    assert together(0.05, 0.05, tests=2) == "inconclusive"  # 0.11 is grey
    unread = finding("a", None, value=None, leaked="not measured")
    for other, word in (("no leak found", "inconclusive"), ("inconclusive", "inconclusive")):
        seeds = [release([finding("a", 0.5, leaked=other)]), release([unread], seed=1)]
        assert cells(seeds)[0].findings[0].leaked == word
    seeds = [release([unread], seed=i) for i in range(2)]
    assert cells(seeds)[0].findings[0].leaked == cells(seeds)[0].leaked == "not measured"


def test_guesses_of_all_seeds_are_a_leak_of_their_setting() -> None:
    found = {"adjusted_p": 0.4, "leaked": "leak"}
    assert together(0.2, 0.2, guesses_p=0.001, **found) == "leak"
    assert together(0.2, 0.2, guesses_p=0.4, **found) == "inconclusive"


def test_leak_to_insiders_confirms_no_other_leak() -> None:
    """One seed of three leaks by chance; insiders see the ensemble's own models in each."""
    inside = finding("b", 1e-9, leaked="leak to insiders", stronger_than_release=True)
    for ps, word in (((0.03, 0.6, 0.7), "inconclusive"), ((0.03, 0.03, 0.04), "leak")):
        words = ["leak" if p <= LEVEL else "no leak found" for p in ps]
        own = [finding("a", p, leaked=w) for p, w in zip(ps, words, strict=True)]
        seeds = [release([one, inside], seed=i, tests=1) for i, one in enumerate(own)]
        (cell,) = cells(seeds)
        assert [f.leaked for f in cell.findings] == [word, "leak to insiders"]
        assert cell.leaked == word


def test_weak_signs_are_a_leak_beside_stronger_ones_of_insiders() -> None:
    inside = finding("b", 0.05, adjusted_p=0.1, stronger_than_release=True)
    own = finding("a", 0.06, adjusted_p=0.12)
    seeds = [release([own, inside], seed=i, tests=2) for i in range(5)]
    assert [f.leaked for f in cells(seeds)[0].findings] == ["leak", "leak to insiders"]


def test_a_seed_that_could_not_make_the_test_counts_against_it() -> None:
    assert together(0.03, 0.03) == "leak"
    assert together(0.03, 0.03, None, None) == "no leak found"  # 0.16; of the two alone 0.014
    ps = (0.03, 0.2, None)
    seeds = [release([finding("a", p)], seed=i) for i, p in enumerate(ps)]
    assert agreements([seeds], False)[0].p_values == {
        "a": pytest.approx(combined_p_value([0.03, 0.2, 1.0]))
    }
    assert together(0.1, 0.1, None, None) == "no leak found"


def test_p_values_are_adjusted_for_the_tests_of_one_release() -> None:
    for tests, word in ((1, "leak"), (2, "leak"), (3, "inconclusive"), (4, "no leak found")):
        assert together(0.03, 0.03, tests=tests) == word  # 0.014, 0.048, 0.094 and 0.151


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("value", [0.4, 0.6])
def test_a_rejected_test_is_a_leak_whatever_the_mean_looks_like(sides: int, value: float) -> None:
    for word in ("no leak found", "inconclusive", "leak"):
        assert together(1e-6, 1e-6, value=value, sides=sides, leaked=word) == "leak"


def test_a_test_without_a_value_that_all_seeds_reject_together_is_a_leak() -> None:
    """Ranks known within bounds only: no seed by itself finds a leak, and all of them do."""
    unread = {"value": None, "ci": None, "leaked": "not measured"}
    assert together(0.03, 0.03, 0.03, tests=2, **unread) == "leak"
    assert together(0.03, 0.03, 0.03, tests=90, **unread) == "not measured"
    beside = finding("b", 1e-6).model_copy(update={"test": "a"})
    read = [release([finding("a", 1e-6, **unread), beside], seed=i) for i in range(2)]
    words = {f.metric: f.leaked for f in cells(read)[0].findings}
    assert words == {"a": "not measured", "b": "leak"}  # the other measure shows it


def test_leak_stays_one_where_texts_differ_by_accident() -> None:
    blind = Control(value=0.9, ci=(0.85, 0.95), n=100)
    assert together(1e-6, 1e-6, 1e-6, blind=blind) == "leak"


@pytest.mark.calibration
def test_under_the_null_a_setting_is_called_a_leak_as_rarely_as_one_run() -> None:
    """Five independent tests, three seeds: twice the lesser of two is below its level."""
    rng, times = np.random.default_rng(0), 1200
    wrong = 0
    for ps in rng.random((times, 3, 5)):
        seeds = [
            release([finding(f"t{j}", p) for j, p in enumerate(row)], i) for i, row in enumerate(ps)
        ]
        wrong += agreements([seeds], False)[0].adjusted_p <= LEVEL
    slack = 3.5 * math.sqrt(0.05 * 0.95 / times)
    assert 0.025 - slack <= wrong / times <= 0.05 + slack


def bound(m: int, r: int, v: int) -> EpsilonLower:
    return by_hand.bound(epsilon_lower(m, r, v, 0.0), delta=0.0, m=m, guesses=[(r, v)])


def claimed(epsilon: float, *right: int, claim_tests: int = 1) -> str:
    m = r = 60
    seeds = [
        release(
            [finding("a", p_value(0.0, m, r, v, 0.0), epsilon_lower=bound(m, r, v))],
            seed=i,
            epsilon=epsilon,
            claim_tests=claim_tests,
        )
        for i, v in enumerate(right)
    ]
    (cell,) = cells(seeds)
    assert cell.claim == cell.findings[0].claim
    return str(cell.claim)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_a_claim_falls_by_all_seeds_together(epsilon: float) -> None:
    """Randomised response at ε is right in e^ε/(1 + e^ε) of its guesses, the most it may be."""
    allowed = 60 * math.exp(epsilon) / (1 + math.exp(epsilon))
    most, few = math.ceil(allowed + 4.5), math.floor(allowed)
    assert p_value(epsilon, 60, 60, most, 0.0) > 0.05  # by itself none refutes it
    assert claimed(epsilon, most, most, most, most) == "refuted"
    assert claimed(epsilon, most, few, few, few) == "not refuted"
    assert claimed(epsilon, most, most, most, most, claim_tests=40) == "not refuted"


@pytest.mark.calibration
def test_a_true_claim_is_refuted_in_one_setting_of_twenty_at_most() -> None:
    rng, epsilon, times = np.random.default_rng(1), 1.0, 1200
    right = rng.binomial(60, math.exp(epsilon) / (1 + math.exp(epsilon)), (times, 3))
    refuted = sum(claimed(epsilon, *map(int, row)) == "refuted" for row in right)
    assert 0.01 <= refuted / times <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / times)


def answered(claim: str, *, epsilon: float = 1.0, **changes: Any) -> tuple[str, str]:
    """What two quiet seeds say of a claim together, each by itself having said `claim`."""
    seeds = [
        release([finding("a", 0.5, claim=claim, **changes)], seed=i, epsilon=epsilon)
        for i in range(2)
    ]
    (found,) = cells(seeds)[0].findings
    return str(found.claim), found.claim_sentence


def test_a_claim_that_no_seed_could_test_is_not_called_kept() -> None:
    assert answered("not testable") == ("not testable", "It holds.")
    assert answered("nothing claimed", epsilon=math.inf)[0] == "nothing claimed"
    word, said = answered("not refuted")
    assert word == "not refuted" and "Of 2 seeds, each by itself: not refuted in 2." in said
    word, said = answered("refuted")  # each alone, and not together: by chance
    assert word == "not refuted" and "refuted in 2" in said


def test_a_claim_of_zero_counts_every_test_that_finds_a_leak() -> None:
    """It is refuted by any of them, so as many are declared as of leaks."""
    zero = {"epsilon": 0.0, "tests": 20, "claim_tests": 1}
    for p, word in ((0.02, "not refuted"), (0.001, "refuted")):  # together 0.9 and 7e-3
        seeds = [release([finding("a", p)], seed=i, **zero) for i in range(2)]
        assert cells(seeds)[0].findings[0].claim == word


# ------------------------------------------------- seeds that measured nothing


def unread(test: str = "a", **changes: Any) -> FindingResult:
    """A measure of which a seed has no value."""
    nothing = {"value": None, "ci": None, "n": 0, "leaked": "not measured", "claim": "not testable"}
    return finding(test, None, **{**nothing, **changes})


def test_a_claim_that_later_seeds_refute_is_refuted() -> None:
    """It was "not refuted" where the first seed measured nothing: only that one was asked."""
    found = finding("a", 1e-9, epsilon_lower=bound(60, 60, 60), claim="refuted", leaked="leak")
    for order in ([unread(), found, found], [found, unread(), found], [found, found, unread()]):
        seeds = [release([f], seed=i, epsilon=1.0) for i, f in enumerate(order)]
        (cell,) = cells(seeds)
        assert (cell.claim, cell.findings[0].claim) == ("refuted", "refuted")
        assert cell.findings[0].claim_sentence.startswith("Refuted by all seeds together")


@pytest.mark.parametrize("known", [1.0, math.inf])
def test_what_one_seed_promises_is_unknown_of_the_setting(known: float) -> None:
    claims: list[Any] = [None, known]
    for order in (claims, claims[::-1]):
        seeds = [
            release([unread(claim="unknown" if e is None else "not testable")], i, e)
            for i, e in enumerate(order)
        ]
        assert (cells(seeds)[0].claim, cells(seeds)[0].findings[0].claim) == ("unknown",) * 2


def measures(draw: st.DrawFn) -> list[FindingResult]:
    """What one seed has: two measures of one test, one with a bound, and one of a ledger.

    Each may be missing, and may have measured nothing.
    """
    right = draw(st.integers(25, 60))
    p, ledger = p_value(0.0, 60, 60, right, 0.0), draw(st.sampled_from([None, 0, 1, 5]))
    test = ChargeTest(queries=0) if ledger is None else ChargeTest(queries=9, exceeded=ledger)
    share = None if ledger is None else 0.5 + ledger
    able, free = {"least_p": 1e-12}, draw(st.floats(1e-4, 1.0))
    evidence = bound(60, 60, right)
    several = [
        draw(st.sampled_from([finding("a", p, epsilon_lower=evidence, **able), unread("a"), None])),
        draw(st.sampled_from([finding("a", p, metric="b", **able), unread("a", metric="b"), None])),
        draw(st.sampled_from([finding("c", free, **able), unread("c"), None])),
        unread("d", attack="ledger", charge_test=test, value=share),
    ]  # fmt: skip
    return [f for f in several if f is not None]


@st.composite
def sweeps(draw: st.DrawFn) -> list[ReleaseResult]:
    """Honest releases of one setting, one a seed: each is answered as a run answers it."""
    family, promise = Family(3, 2), draw(st.sampled_from([1.0, 0.0, math.inf]))
    sees = {("membership", metric): shown("by hand", 9) for metric in "abc"}
    shows = Shows({"code": shown("by hand", 9)}, sees)
    several = []
    for seed in range(draw(st.integers(1, 4))):
        alone = release(measures(draw), seed, promise, family.tests, family.claims)
        adjusted = by_holm(alone.findings, alone.guarantee, family)
        found = judge(adjusted, alone.guarantee, shows, family)
        words = {
            "leaked": leaked_overall(found),
            "claim": claim_overall(found, alone.guarantee),
            "silence": silence_over(found),
        }
        update = {"defense": "submix", "findings": found, **words}
        several.append(alone.model_copy(update=update))
    return several


def undefended(seed: int) -> ReleaseResult:
    """The reference that leaks by every measure, so that silence beside it shows something."""
    loud = {"leaked": "leak", "claim": "nothing claimed"}
    found = [finding(metric, 1e-12, adjusted_p=1e-12, **loud) for metric in "abc"]
    return release(found, seed).model_copy(update={"reference": True, "role": "positive control"})


@given(sweeps(), st.randoms(use_true_random=False))
def test_the_words_of_a_setting_do_not_depend_on_the_order_of_its_seeds(
    seeds: list[ReleaseResult], random: Any
) -> None:
    def words(releases: Sequence[ReleaseResult]) -> tuple[Any, ...]:
        (cell,) = cells(releases)
        each = {f.metric: (f.leaked, f.claim, f.claim_sentence) for f in cell.findings}
        return cell.leaked, cell.claim, each

    assert words(random.sample(seeds, len(seeds))) == words(seeds)


# ------------------------------------------------- what is written is read back


def read_back(releases: Sequence[ReleaseResult], folder: Path) -> Results:
    facts = {"planted_users": 120, "trained_users": 61, "twins": 59}  # as of the corpus
    numbers = dict.fromkeys(r.seed for r in releases)
    seeds = [SeedResult(seed=seed, plan_hash="ab", **facts) for seed in numbers]
    sweep = SweepResult(seeds=seeds, cells=cells(releases))
    path = folder / "results.json"
    path.write_text(to_json(by_hand.run(*releases, sweep=sweep, plan={})), encoding="utf-8")
    return stored.load(path)


def test_a_measure_that_one_seed_has_is_answered_with_the_other_seeds(tmp_path: Path) -> None:
    """It kept its own word, "inconclusive", beside a measure of the same test that is a leak: no
    report or gate could read the file."""
    quiet = {"leaked": "inconclusive", "claim": "nothing claimed"}
    first = [finding("a", 0.5, adjusted_p=0.5, metric=metric, **quiet) for metric in "ab"]
    others = [
        [finding("a", 1e-9, adjusted_p=1e-9, leaked="leak", claim="nothing claimed")]
        for _ in range(2)
    ]
    seeds = [release(found, i, tests=1) for i, found in enumerate([first, *others])]
    read = read_back(seeds, tmp_path).sweep
    assert read is not None
    both = {f.metric: (str(f.leaked), f.p_value) for f in read.cells[0].findings}
    assert both["a"] == both["b"] and both["b"][0] == "leak"
    assert "inconclusive in 1, no such measure in 2" in read.cells[0].findings[1].sentence


@given(seeds=sweeps())
def test_what_an_honest_sweep_writes_is_read_back(
    seeds: list[ReleaseResult], tmp_path_factory: pytest.TempPathFactory
) -> None:
    beside = [undefended(release.seed) for release in seeds]
    assert read_back([*seeds, *beside], tmp_path_factory.mktemp("sweep")).sweep is not None


# ------------------------------------------------------------------ of ledgers


def ledger(test: ChargeTest, value: float | None, claim: str) -> FindingResult:
    exact = "exact for these queries"
    return unread("charges", charge_test=test, value=value, claim=claim, method=exact)


def of_ledgers(*seeds: FindingResult) -> FindingResult:
    (cell,) = cells([release([f], seed=i, epsilon=1.0) for i, f in enumerate(seeds)])
    assert (cell.leaked, cell.claim) == ("not measured", cell.findings[0].claim)
    return cell.findings[0]


def exact(queries: int, exceeded: int, share: float) -> FindingResult:
    word = "refuted" if exceeded else "not refuted"
    return ledger(ChargeTest(queries=queries, exceeded=exceeded), share, word)


NO_LEDGER = ledger(ChargeTest(queries=0), None, "not testable")


def test_exact_tests_of_all_seeds_are_counted() -> None:
    """The first seed's stood for all: 0 of 9 beyond their charge, and the claim refuted."""
    found = of_ledgers(exact(9, 0, 0.5), NO_LEDGER, exact(20, 2, 1.25), exact(20, 1, 1.1))
    assert found.charge_test == ChargeTest(queries=49, exceeded=3)
    assert (found.value, found.ci, found.n) == (1.25, (1.25, 1.25), 49)  # the mean is below 1
    assert found.claim == "refuted"
    fact = "n 2 of 3 seeds a query tells more than it was charged"
    assert found.claim_sentence == f"Refuted: i{fact}."
    assert found.sentence == f"I{fact}: 3 of 49 compared, the worst at 1.25 times its charge."
    assert "largest of 3 seeds" in found.method


def test_exact_tests_that_keep_the_claim_say_so() -> None:
    found = of_ledgers(exact(9, 0, 0.5), exact(20, 0, 0.75))
    assert found.charge_test == ChargeTest(queries=29, exceeded=0)
    assert (found.value, found.claim) == (0.75, "not refuted")
    fact = "n none of 2 seeds does a query tell more than it was charged"
    assert found.claim_sentence == f"Not refuted: i{fact}."
    assert found.sentence == f"I{fact}: 29 compared, the nearest at 0.75 times its charge."


def test_bets_of_all_seeds_are_one_p_value() -> None:
    def bet(wealth: float) -> FindingResult:
        p = 1 / max(1.0, wealth)
        return ledger(ChargeTest(queries=100, p_value=p), wealth, "not refuted")

    together = combined_p_value([0.05, 0.05, 0.05, 1.0])
    found = of_ledgers(bet(20), bet(20), bet(20), NO_LEDGER)
    assert found.charge_test == ChargeTest(queries=300, p_value=together) and together < 0.05
    assert (found.value, found.ci, found.n, found.claim) == (20.0, None, 300, "refuted")
    assert f"turned 1 into 20 on average; together p = {together:.2g}." in found.sentence
    assert f"(adjusted p = {together:.2g})" in found.claim_sentence
    assert of_ledgers(bet(10), bet(0.5), bet(2)).claim == "not refuted"


def test_without_any_ledger_nothing_was_compared() -> None:
    found = of_ledgers(NO_LEDGER, NO_LEDGER)
    assert (found.charge_test, found.claim) == (ChargeTest(queries=0), "not testable")
    assert found.sentence == "Of 2 seeds, each by itself: not measured in 2."
