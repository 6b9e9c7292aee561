"""The tests of one release that are rejected, at a family-wise level of 5 %.

Three families: tests of "the release does not depend on what was planted", whose p-values are
adjusted in `adjusted`; tests of the claim by coins and ranks, and of the claim's ledgers (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from audit.core.guarantee import Guarantee
from audit.core.terms import OnClaim
from audit.findings import bounds
from audit.results.joined import LEVEL, is_grey, leak_p
from audit.results.measurement import EpsilonLower, FindingResult, Measurement
from audit.statistics.holm import adjusted_p_values


@dataclass(frozen=True)
class Family:
    """Number of tests that the attacks may make, fixed before any coin.

    tests: of "nothing depends on what was planted". claims: of the claim, those with a bound on ε.
    tossed: those of `tests` that are functions of scores and coins. A test that could not run
    counts as p = 1: whether it can run may depend on the coins. looks: at the same coins, of which
    `tests` and `claims` have all. lots: in which people are asked about; the bets on them, which
    are none of `tests`, count as one look, and the tests of all people as another. bets: how many
    scores are bet on then; one that nobody has yet counts with its stake.
    """

    tests: int
    claims: int
    tossed: int = 0
    looks: int = 1
    lots: int = 1
    bets: int = 0

    def __add__(self, other: Family) -> Family:
        return Family(
            self.tests + other.tests,
            self.claims + other.claims,
            self.tossed + other.tossed,
            bets=self.bets + other.bets,
        )

    def over(self, looks: int) -> Family:
        """Enlarge for one of so many looks at the same coins: each has an equal share of the level.

        The tests of the other looks count as p = 1 here, so one look errs with probability at most
        level/looks, and any of them, whenever one stops, with at most the level.
        """
        tests, claims = looks * self.tests, looks * self.claims
        return replace(self, tests=tests, claims=claims, looks=looks)

    def in_lots(self, lots: int) -> Family:
        """Enlarge for people who are asked about in so many lots, if in more than one."""
        return self if lots == 1 else replace(self.over(2), lots=lots)

    @property
    def of_one_look(self) -> Family:
        """The tests that one look makes."""
        return Family(self.tests // self.looks, self.claims // self.looks, self.tossed)


NONE = Family(0, 0)


@dataclass(frozen=True)
class Rejections:
    """Tests that are rejected, or nearly so.

    leaking, refuting: adjusted p-value of each rejected test. grey: of each that is neither a leak
    nor silence. measured: tests with a measured value. family: the sizes that the p-values are
    adjusted for. least: the smallest unadjusted p-value of all tests. bounds: how many bounds on ε
    there are.
    """

    leaking: Mapping[str, float]
    refuting: Mapping[str, float]
    measured: frozenset[str]
    family: Family
    grey: Mapping[str, float] = field(default_factory=dict)
    least: float | None = None
    bounds: int = 0


def rejections(findings: Sequence[Measurement], guarantee: Guarantee, family: Family) -> Rejections:
    """Collect the rejected tests of one release, whose p-values are adjusted.

    A claim is refuted only by a test that has also found a leak, so that refutations err no more
    often than leaks do.
    """
    adjusted = by_test(findings, leak_p)
    claims = by_test(findings, lambda f: claim_p_value(f, guarantee)).keys() - ledgers_of(findings)
    tests = max(family.tests, len(by_test(findings, lambda f: f.p_value)))
    sizes = Family(tests, tests if guarantee.constant else max(family.claims, len(claims)))
    return Rejections(
        leaking={test: p for test, p in adjusted.items() if p <= LEVEL},
        refuting=_refuting(findings, guarantee, sizes.claims),
        measured=frozenset(test_of(f) for f in findings if f.value is not None),
        family=sizes,
        grey={
            test: adjusted[test] for test in by_test([f for f in findings if is_grey(f)], leak_p)
        },
        least=min((f.p_value for f in findings if f.p_value is not None), default=None),
        bounds=sum(f.epsilon_lower is not None for f in findings),
    )


def _refuting(
    findings: Sequence[Measurement], guarantee: Guarantee, tests: int
) -> dict[str, float]:
    """Select the tests that refute the claim. Tests of ledgers are a family of their own.

    A claim of independence is refuted by any test that finds a leak. tests: of the claim.
    """
    claiming = [f for f in findings if claim_p_value(f, guarantee) is not None]
    p_values, ledgers = (
        by_test(claiming, lambda f: claim_p_value(f, guarantee)),
        ledgers_of(findings),
    )
    leaking = {test: p for test, p in by_test(claiming, own_leak_p).items() if p <= LEVEL}
    on_ledgers = {test: p for test, p in p_values.items() if test in ledgers}
    on_coins = {test: p for test, p in p_values.items() if test not in ledgers}
    refuted = leaking if guarantee.constant else rejected_by_holm(on_coins, tests)
    found = {test: p for test, p in refuted.items() if test in leaking}
    return {**found, **rejected_by_holm(on_ledgers, len(ledgers))}


def own_leak_p(finding: Measurement) -> float | None:
    """Return the adjusted p-value, as a leak, of what tests the claim: guesses or the test."""
    return finding.adjusted_p if finding.guesses_p is None else finding.guesses_p


def rejected(
    p_values: Mapping[str, float],
    claims: Mapping[str, float],
    family: Family,
    measured: frozenset[str],
    ledgers: frozenset[str] = frozenset(),
) -> Rejections:
    """Adjust p-values over seeds, by Holm. A family smaller than its tests is enlarged."""
    on_coins = {test: p for test, p in claims.items() if test not in ledgers}
    on_ledgers = {test: p for test, p in claims.items() if test in ledgers}
    sizes = Family(max(family.tests, len(p_values)), max(family.claims, len(on_coins)))
    found = rejected_by_holm(on_coins, sizes.claims)
    leaking = {**found, **rejected_by_holm(p_values, sizes.tests)}
    refuting = {**found, **rejected_by_holm(on_ledgers, len(ledgers))}
    return Rejections(leaking, refuting, measured, sizes)


def ledgers_of(findings: Sequence[Measurement]) -> frozenset[str]:
    """Name the tests of ledgers: refuting one shows no leak of what was planted."""
    return frozenset(test_of(f) for f in findings if f.charge_test is not None)


def test_of(finding: Measurement) -> str:
    """Name the test behind a finding; one of its own where none is known."""
    return finding.test or f"{finding.attack} {finding.metric}"


def claim_p_value(finding: Measurement, guarantee: Guarantee) -> float | None:
    """Compute the p-value of the claim itself; None where the finding cannot test it.

    A claim with a known mechanism is tested on its trade-off curve alone, any other by the bound on
    ε: never by the smaller of two p-values.
    """
    if untestable(finding, guarantee):
        return None
    if finding.charge_test is not None:
        exact = finding.charge_test.exceeded
        return finding.charge_test.p_value if exact is None else float(exact == 0)
    if guarantee.constant:
        return finding.p_value  # the claim is independence of what was planted, which p_value tests
    if finding.claim_test is not None:
        return finding.claim_test.p_value
    assert finding.epsilon_lower is not None
    return bounds.claim_p_value(
        finding.epsilon_lower, guarantee.epsilon or 0.0, guarantee.delta or 0.0
    )


def untestable(finding: Measurement, guarantee: Guarantee) -> str:
    """Explain why a finding cannot test the claim, whatever it measures; empty where it can."""
    bound = finding.epsilon_lower
    if guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return "no ε is claimed"
    if finding.charge_test is not None:
        return ""  # the auditor asks the service itself, and its neighbours
    if finding.stronger_than_release:
        return "it reads probabilities, and the release gives samples only"
    if guarantee.constant or finding.claim_test is not None:
        return ""
    if bound is None:
        return "this measure gives no bound on ε"
    at = guarantee.delta  # of the bound, the evidence is stored: it is read again at the claim's δ
    return guarantee.incomparable(bound.unit, bound.relation, at) or ""


def tested_bound(finding: Measurement, guarantee: Guarantee) -> EpsilonLower | None:
    """Find the bound by which a finding tests the claim; None where it tests it otherwise."""
    otherwise = finding.claim_test is not None or finding.charge_test is not None
    unlike = otherwise or guarantee.constant or untestable(finding, guarantee)
    return None if unlike else finding.epsilon_lower


def shown_of(findings: Sequence[FindingResult], guarantee: Guarantee) -> list[float]:
    """Compute the ε (nats) at the claim's δ that each bound shows which tests the claim.

    Each at its own confidence: the largest of several errs more often than one.
    """
    answered = (f for f in findings if f.claim in (OnClaim.REFUTED, OnClaim.NOT_REFUTED))
    tested = (tested_bound(finding, guarantee) for finding in answered)
    delta = guarantee.delta or 0.0
    return [bounds.at_delta(bound, delta) for bound in tested if bound is not None]


def by_test(
    findings: Sequence[Measurement], p_of: Callable[[Measurement], float | None]
) -> dict[str, float]:
    """Collect p-values by test; where measures of one test differ, the smallest."""
    p_values: dict[str, float] = {}
    for finding in findings:
        test, p = test_of(finding), p_of(finding)
        if p is not None:
            p_values[test] = min(p, p_values.get(test, p))
    return p_values


def rejected_by_holm(p_values: Mapping[str, float], tests: int) -> dict[str, float]:
    """Select the tests at or below LEVEL, of `tests` tests in all, with adjusted p-values."""
    not_run = [1.0] * max(0, tests - len(p_values))
    adjusted = adjusted_p_values([*p_values.values(), *not_run])
    return {test: float(p) for test, p in zip(p_values, adjusted, strict=False) if p <= LEVEL}
