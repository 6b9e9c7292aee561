"""The tests of one release that are rejected, at a family-wise level of 5 % (Holm).

Two families: tests of "the release does not depend on what was planted", and of the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from audit.core.guarantee import Guarantee
from audit.core.terms import OnClaim
from audit.findings import bounds
from audit.findings.case import LEVEL
from audit.results.measurement import Control, EpsilonLower, FindingResult, Measurement
from audit.statistics.holm import adjusted_p_values


@dataclass(frozen=True)
class Family:
    """How many tests the attacks may make, fixed before any coin.

    tests: of "nothing depends on what was planted". claims: of the claim, those with a bound on ε.
    A test that could not run counts as p = 1: whether it can run may depend on the coins.
    """

    tests: int
    claims: int

    def __add__(self, other: Family) -> Family:
        return Family(self.tests + other.tests, self.claims + other.claims)


@dataclass(frozen=True)
class Rejections:
    """What is rejected.

    leaking, refuting: adjusted p-value of each rejected test. measured: tests with a measured
    value. confounded: tests whose candidates can be told apart without the model, where no fair
    coin chose the members. family: the sizes that the p-values are adjusted for.
    """

    leaking: Mapping[str, float]
    refuting: Mapping[str, float]
    measured: frozenset[str]
    confounded: frozenset[str]
    family: Family


def rejections(findings: Sequence[Measurement], guarantee: Guarantee, family: Family) -> Rejections:
    """Adjusts all tests of one release. Coins that refute the claim have also found a leak."""
    confounded = frozenset(
        test_of(f) for f in findings if not f.fair_coins and is_confounded(f.blind, f.ci)
    )
    sound = [f for f in findings if test_of(f) not in confounded]
    p_values = _by_test(sound, lambda f: f.p_value)
    claims = _by_test(sound, lambda f: claim_p_value(f, guarantee))
    return rejected(
        p_values,
        claims,
        Family(family.tests, family.tests if guarantee.constant else family.claims),
        frozenset(test_of(f) for f in findings if f.value is not None),
        confounded,
        ledgers_of(findings),
    )


def ledgers_of(findings: Sequence[Measurement]) -> frozenset[str]:
    """Names the tests of ledgers: refuting one shows no leak of what was planted."""
    return frozenset(test_of(f) for f in findings if f.charge_test is not None)


def rejected(
    p_values: Mapping[str, float],
    claims: Mapping[str, float],
    family: Family,
    measured: frozenset[str],
    confounded: frozenset[str] = frozenset(),
    ledgers: frozenset[str] = frozenset(),
) -> Rejections:
    """Adjusts p-values by test. A family smaller than its tests is enlarged."""
    sizes = Family(max(family.tests, len(p_values)), max(family.claims, len(claims)))
    refuting = _rejected(claims, sizes.claims)
    found = {test: p for test, p in refuting.items() if test not in ledgers}
    leaking = {**found, **_rejected(p_values, sizes.tests)}
    return Rejections(leaking, refuting, measured, confounded, sizes)


def test_of(finding: Measurement) -> str:
    """Names the test behind a finding; one of its own where none is known."""
    return finding.test or f"{finding.attack} {finding.metric}"


def is_confounded(blind: Control | None, ci: tuple[float, float] | None) -> bool:
    """Tells whether the blind baseline separates the candidates, perhaps as well as the model does.

    An AUC of 0.1 separates as well as one of 0.9. ci: interval of the model's own AUC.
    """
    if blind is None or blind.ci is None or blind.ci[0] <= 0.5 <= blind.ci[1]:
        return False
    if ci is None:
        return True
    at_least = max(ci[0] - 0.5, 0.5 - ci[1])
    return at_least <= max(blind.ci[1] - 0.5, 0.5 - blind.ci[0])


def claim_p_value(finding: Measurement, guarantee: Guarantee) -> float | None:
    """Computes the p-value of the claim itself; None where the finding cannot test it.

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
    """Says why a finding cannot test the claim, whatever it measures; empty where it can."""
    bound = finding.epsilon_lower
    if guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return "no ε is claimed"
    if finding.charge_test is not None:
        return ""  # the auditor asks the service itself, and its neighbours
    if finding.stronger_than_release:
        return "it reads probabilities, and the release gives samples only"
    if not finding.fair_coins:
        return "no fair coins chose the members"
    if guarantee.constant or finding.claim_test is not None:
        return ""
    if bound is None:
        return "this measure gives no bound on ε"
    at = guarantee.delta  # of the bound, the evidence is stored: it is read again at the claim's δ
    return guarantee.incomparable(bound.unit, bound.relation, at) or ""


def tested_bound(finding: Measurement, guarantee: Guarantee) -> EpsilonLower | None:
    """Finds the bound by which a finding tests the claim; None where it tests it otherwise."""
    otherwise = finding.claim_test is not None or finding.charge_test is not None
    unlike = otherwise or guarantee.constant or untestable(finding, guarantee)
    return None if unlike else finding.epsilon_lower


def most_shown(findings: Sequence[FindingResult], guarantee: Guarantee) -> float | None:
    """Computes the largest ε (nats) at the claim's δ that bounds show which do not refute it.

    Each at its own confidence; None where no bound tests the claim.
    """
    open_ = (f for f in findings if f.claim == OnClaim.NOT_REFUTED)
    tested = (tested_bound(finding, guarantee) for finding in open_)
    delta = guarantee.delta or 0.0
    return max((bounds.at_delta(b, delta) for b in tested if b is not None), default=None)


def _by_test(
    findings: Sequence[Measurement], p_of: Callable[[Measurement], float | None]
) -> dict[str, float]:
    """Collects p-values by test; where measures of one test differ, as in no run, the smallest."""
    p_values: dict[str, float] = {}
    for finding in findings:
        test, p = test_of(finding), p_of(finding)
        if p is not None:
            p_values[test] = min(p, p_values.get(test, p))
    return p_values


def _rejected(p_values: Mapping[str, float], tests: int) -> dict[str, float]:
    """Selects the tests below LEVEL, of `tests` tests in all, with their adjusted p-values."""
    not_run = [1.0] * max(0, tests - len(p_values))
    adjusted = adjusted_p_values([*p_values.values(), *not_run])
    return {test: float(p) for test, p in zip(p_values, adjusted, strict=False) if p < LEVEL}
