"""Verdicts: what each finding says about the claim, in a word and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.core.guarantee import Guarantee
from audit.core.terms import LEAKS, Verdict
from audit.findings import LEVEL, Finding, bounds
from audit.results.schema import Control, FindingResult
from audit.results.words import percent
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import one_sided_upper

Sensitive = dict[tuple[str, str], bool]


def judge(
    findings: Sequence[Finding],
    guarantee: Guarantee,
    sensitive: Sensitive | None,
    tests: int = 0,
) -> list[FindingResult]:
    """Judges all findings of one release; tests are Holm-adjusted over the release.

    tests: how many tests the attacks may make, fixed before any coin. Tests that could not run
    count as p = 1: whether they can run may depend on the coins.
    sensitive: by (attack, metric), whether the positive control leaked in this run; None where the
    run has no references. Silence of an attack that finds no leak anywhere shows nothing.
    """
    declared, tests = tests, max(tests, len({f.test for f in findings if f.p_value is not None}))
    leaking = rejected({f.test: f.p_value for f in findings if f.p_value is not None}, tests)
    claims = {f.test: p for f in findings if (p := claim_p_value(f, guarantee)) is not None}
    refuting = rejected(claims, declared)
    confounded = {f.test for f in findings if is_confounded(f.blind, f.interval.ci)}
    results = []
    for finding in findings:
        if finding.interval.value is None:
            word, sentence = Verdict.NOT_MEASURED, _unmeasured(finding)
        elif finding.test in confounded:
            word = Verdict.INCONCLUSIVE
            sentence = "The candidates can be told apart without the model."
        elif finding.test in leaking and _above_chance(finding):
            word, sentence = leak(finding, guarantee, finding.test in refuting)
        else:
            word, sentence = _no_leak(finding, sensitive, tests)
        observation = finding.observation if finding.interval.n else ""
        results.append(_result(finding, word, f"{observation} {sentence}".strip()))
    return results


def leaks(result: FindingResult) -> bool:
    """Tells whether a judged finding says that something leaked."""
    return result.verdict in LEAKS


def rejected(p_values: dict[str, float], tests: int) -> set[str]:
    """Selects the tests rejected at the family-wise level, of `tests` tests in all."""
    not_run = [1.0] * max(0, tests - len(p_values))
    adjusted = adjusted_p_values([*p_values.values(), *not_run])
    return {test for test, p in zip(p_values, adjusted, strict=False) if p < LEVEL}


def _unmeasured(finding: Finding) -> str:
    if finding.observation and finding.power.n and not finding.k:
        return finding.observation  # it says why
    why = finding.interval.method
    return f"It {why}." if why.startswith("needs") else "Nothing was answered to measure it on."


def _above_chance(finding: Finding) -> bool:
    return above_chance(finding.interval.value, finding.chance, finding.sides)


def above_chance(value: float | None, chance: float | None, sides: int) -> bool:
    """Tells whether a value beats chance: else it is no leak, even if a test it shares rejects."""
    return sides == 2 or value is None or chance is None or value > chance


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


def claim_p_value(finding: Finding | FindingResult, guarantee: Guarantee) -> float | None:
    """Computes the p-value of the claim itself; None where the finding cannot test it."""
    bound = finding.epsilon_lower
    if bound is None or guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return None
    if finding.stronger_than_release:
        return None
    if guarantee.incomparable(bound.unit, bound.relation, bound.delta) is not None:
        return None
    if guarantee.epsilon == 0 and not guarantee.delta:
        return finding.p_value  # the claim is independence of what was planted, which p_value tests
    return bounds.claim_p_value(bound, guarantee.epsilon, guarantee.delta or 0.0)


def leak(
    finding: Finding | FindingResult, guarantee: Guarantee, refutes: bool
) -> tuple[Verdict, str]:
    """Judges a finding above chance: (verdict, sentence). refutes: is the claim rejected?"""
    bound = finding.epsilon_lower
    if finding.stronger_than_release:
        why = "it reads probabilities, and the release gives samples only"
        return Verdict.NOT_COMPARABLE, f"Above chance, but {why}: no evidence on the claim."
    if guarantee.epsilon is None:
        return Verdict.NOT_COMPARABLE, "A leak; what was promised is unknown."
    if math.isinf(guarantee.epsilon):
        return Verdict.CONSISTENT, "A leak, and nothing was promised."
    if bound is None:
        return Verdict.NOT_COMPARABLE, "A leak; this metric gives no bound on ε."
    reason = guarantee.incomparable(bound.unit, bound.relation, bound.delta)
    if reason is not None:
        return Verdict.NOT_COMPARABLE, f"A leak, but no test of the claim: {reason}."
    if refutes:
        if guarantee.epsilon == 0 and not guarantee.delta:
            return Verdict.REFUTED, (
                "Claimed: ε = 0, independence of what was planted; it depends on it."
            )
        least = bounds.at_delta(bound, guarantee.delta or 0.0)
        return Verdict.REFUTED, (
            f"Claimed: ε = {guarantee.epsilon:.3g} nats; found: at least {least:.3g} (95 %)."
        )
    largest = finding.power.largest_epsilon
    if largest is not None and largest <= guarantee.epsilon:
        return Verdict.INCONCLUSIVE, (
            f"A leak; so few could show an ε of {largest:.3g} at most, which the claimed "
            f"{guarantee.epsilon:.3g} allows."
        )
    return Verdict.CONSISTENT, "A leak, too small to refute the claim."


def _no_leak(finding: Finding, sensitive: Sensitive | None, tests: int) -> tuple[Verdict, str]:
    if finding.untrained:
        why = f"{finding.untrained} What was not trained on cannot leak."
    elif sensitive is None:
        why = "Without references no leak could be told from none."
    elif finding.p_value is None or finding.least_p * tests >= LEVEL:
        why = finding.untested
    elif not sensitive.get((finding.attack, finding.metric), False):
        why = "The undefended model did not leak here: silence shows nothing."
    elif _suspicious(finding, finding.p_value):
        why = "More than chance, but not beyond doubt once adjusted for all tests."
    else:
        return Verdict.SILENT, f"Not told apart from chance. {_reach(finding)}".strip()
    return Verdict.INCONCLUSIVE, why


def _suspicious(finding: Finding, p: float) -> bool:
    """Tells whether the finding alone, unadjusted, rejects chance at 95 %, two-sided."""
    bound, interval, chance = finding.epsilon_lower, finding.interval, finding.chance
    if not _above_chance(finding):
        return False
    if p < LEVEL * finding.sides / 2 or (bound is not None and bound.value > 0):
        return True
    if chance is None or interval.low is None or interval.high is None:
        return False
    return interval.low > chance or (finding.sides == 2 and interval.high < chance)


def _reach(finding: Finding) -> str:
    """Says what the run could have shown."""
    rate = finding.power.detectable_rate
    if finding.k is None or rate is None:
        return "" if finding.epsilon_lower is None else _reach_epsilon(finding)
    most = one_sided_upper(finding.k, finding.interval.n)
    return (
        f"The rate is at most {percent(most)} (95 %, one-sided); one of {percent(rate)} over "
        "different secrets would have been called a leak."
    )


def _reach_epsilon(finding: Finding) -> str:
    largest = finding.power.largest_epsilon
    return "" if not largest else f"An ε of up to {largest:.3g} nats could have been shown."


def _result(finding: Finding, word: str, sentence: str) -> FindingResult:
    return FindingResult.model_validate(
        {
            "attack": finding.attack,
            "metric": finding.metric,
            "access": finding.access,
            "unit": finding.unit,
            "value": finding.interval.value,
            "ci": finding.interval.ci,
            "confidence": finding.interval.confidence,
            "method": finding.interval.method,
            "k": finding.k,
            "n": finding.interval.n,
            "chance": finding.chance,
            "control": finding.control,
            "blind": finding.blind,
            "p_value": finding.p_value,
            "sides": finding.sides,
            "test": finding.test,
            "epsilon_lower": finding.epsilon_lower,
            "power": finding.power,
            "stronger_than_release": finding.stronger_than_release,
            "roc": finding.roc,
            "exposures": finding.exposures,
            "outcomes": finding.outcomes,
            "untrained": finding.untrained,
            "verdict": word,
            "sentence": sentence,
        }
    )
