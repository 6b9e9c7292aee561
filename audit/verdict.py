"""Verdicts are sentences: what a finding says about a claim, and what it cannot say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.findings import LEVEL, Finding
from audit.guarantee import Guarantee
from audit.results import FindingResult, ReleaseResult
from audit.statistics import one_run
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import one_sided_upper

Sensitive = dict[tuple[str, str], bool]


def judge(
    findings: Sequence[Finding], guarantee: Guarantee, sensitive: Sensitive | None
) -> list[FindingResult]:
    """Verdicts on all findings of one release, each kind of test Holm-adjusted over them.

    sensitive: by (attack, metric), whether the positive control leaked in this run; None where the
    run has no references. Silence of an attack that finds nothing anywhere shows nothing.
    """
    leaking = _rejected({f.test: f.p_value for f in findings if f.p_value is not None})
    refuting = _rejected({f.test: p for f in findings if (p := _claim(f, guarantee)) is not None})
    results = []
    for finding in findings:
        if finding.interval.value is None:
            word, sentence = "not measured", "Nothing was answered that this could be measured on."
        elif finding.test in leaking:
            word, sentence = _leak(finding, guarantee, finding.test in refuting)
        else:
            word, sentence = _no_leak(finding, sensitive)
        results.append(_result(finding, word, f"{_measured(finding)} {sentence}".strip()))
    return results


def leaks(result: FindingResult) -> bool:
    """Whether a judged finding says that something leaked."""
    return result.verdict in ("refuted", "consistent", "not comparable")


def _rejected(p_values: dict[str, float]) -> set[str]:
    """The tests that are rejected at the family-wise level."""
    adjusted = adjusted_p_values(list(p_values.values()))
    return {test for test, p in zip(p_values, adjusted, strict=True) if p < LEVEL}


def _claim(finding: Finding, guarantee: Guarantee) -> float | None:
    """The p-value of the claim itself, where the finding can test it."""
    bound = finding.epsilon_lower
    if bound is None or guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return None
    if finding.stronger_than_release:
        return None
    if guarantee.incomparable(bound.unit, bound.relation, bound.delta) is not None:
        return None
    if guarantee.epsilon == 0 and not guarantee.delta:
        return finding.p_value  # nothing may depend on what was planted: that very test
    delta = guarantee.delta or 0.0
    return one_run.p_value(guarantee.epsilon, bound.m, bound.r, bound.v, delta)


def _leak(finding: Finding, guarantee: Guarantee, refutes: bool) -> tuple[str, str]:
    bound = finding.epsilon_lower
    if finding.stronger_than_release:
        why = "it reads probabilities, and the release gives samples only"
        return "not comparable", f"Above chance, but {why}: no evidence on the claim."
    if guarantee.epsilon is None:
        return "not comparable", "A leak; what was promised is unknown."
    if math.isinf(guarantee.epsilon):
        return "consistent", "A leak, and nothing was promised."
    if bound is None:
        return "not comparable", "A leak; this metric gives no bound on ε."
    reason = guarantee.incomparable(bound.unit, bound.relation, bound.delta)
    if reason is not None:
        return "not comparable", f"A leak, but no test of the claim: {reason}."
    if refutes:
        if guarantee.epsilon == 0:
            return "refuted", "Claimed: ε = 0, independence of what was planted; it depends on it."
        delta = guarantee.delta or 0.0
        least = one_run.epsilon_lower(bound.m, bound.r, bound.v, delta)
        return "refuted", (
            f"Claimed: ε = {guarantee.epsilon:.3g} nats; found: at least {least:.3g} (95 %)."
        )
    largest = finding.power.largest_epsilon
    if largest is not None and largest <= guarantee.epsilon:
        return "inconclusive", (
            f"A leak; these coins could show an ε of {largest:.3g} at most, which the claimed "
            f"{guarantee.epsilon:.3g} allows."
        )
    return "consistent", "A leak, too small to refute the claim."


def _no_leak(finding: Finding, sensitive: Sensitive | None) -> tuple[str, str]:
    low = finding.interval.low
    if sensitive is None:
        return "inconclusive", "Without references no leak could be told from none."
    if not sensitive.get((finding.attack, finding.metric), False):
        return "inconclusive", "The undefended model did not leak here: silence shows nothing."
    if finding.p_value is None:
        return "inconclusive", "Too little was measured for any test."
    if finding.chance is not None and low is not None and low > finding.chance:
        return "inconclusive", "Above chance, but not beyond doubt once adjusted for all tests."
    return "silent", f"No more than chance. {_reach(finding)}".strip()


def _reach(finding: Finding) -> str:
    """What the run could have shown, in words."""
    rate = finding.power.detectable_rate
    if finding.k is None or rate is None:
        return ""
    most = one_sided_upper(finding.k, finding.interval.n)
    return (
        f"The rate is at most {percent(most)} (95 %, one-sided); one of {percent(rate)} over "
        "different secrets would have been called a leak."
    )


def _measured(finding: Finding) -> str:
    interval, control = finding.interval, finding.control
    if interval.value is None:
        return ""
    if finding.metric == "hit_rate":
        twins = f"; {control.k} were twins'" if control else ""
        return f"{finding.k} of {interval.n} generations were planted secrets{twins}."
    if finding.metric == "recall":
        twins = f", and {control.k} of {control.n} twins" if control else ""
        return f"{finding.k} of {interval.n} planted secrets came up{twins}."
    against = f", twins {percent(control.value)}" if control else ""
    return f"{finding.metric}: {percent(interval.value)}{against}."


def percent(share: float) -> str:
    """A share as a percentage with two or three significant digits."""
    if share == 0:
        return "0 %"
    return f"{100 * share:.3g} %" if share >= 1e-4 else f"{share:.1e}"


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
            "p_value": finding.p_value,
            "epsilon_lower": finding.epsilon_lower,
            "power": finding.power,
            "stronger_than_release": finding.stronger_than_release,
            "verdict": word,
            "sentence": sentence,
        }
    )


def headline(releases: Sequence[ReleaseResult]) -> str:
    """The one sentence a reviewer reads: what each audited release leaked, promised and cost."""
    audited = [r for r in releases if not r.reference]
    return " ".join(_one_line(release, releases) for release in audited)


def _one_line(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    main = [f for f in release.findings if f.value is not None and not f.stronger_than_release]
    parts = []
    for attack in dict.fromkeys(f.attack for f in release.findings):
        of_attack = [f for f in main if f.attack == attack]
        parts.append(_attack_words(attack, of_attack, _beside(attack, of_attack, releases)))
    text = f"{release.defense}: " + "; ".join(parts)
    promised = _promise(release)
    utility = release.utility.get("perplexity")
    cost = f" Perplexity {_number(utility.value)}{_between(releases)}." if utility else ""
    return f"{text}. {promised}{cost}"


def _attack_words(attack: str, findings: Sequence[FindingResult], beside: str) -> str:
    if not findings:
        return f"{attack} was not measured"
    words = [f.verdict for f in findings]
    if "refuted" in words:
        return f"{attack} refutes the claimed guarantee"
    first = findings[0]
    name = first.metric.replace("_", " ")
    seen = f"{first.k} of {first.n}" if first.k is not None else percent(first.value or 0.0)
    if any(leaks(f) for f in findings):
        return f"{attack} finds a leak ({name} {seen}{beside})"
    if "silent" in words:
        upper = None if first.k is None else one_sided_upper(first.k, first.n)
        most = "" if upper is None else f", at most {percent(upper)}"
        return f"{attack} finds no leak ({name} {seen}{most}{beside})"
    return f"{attack} is inconclusive ({name} {seen}{beside})"


def _beside(
    attack: str, findings: Sequence[FindingResult], releases: Sequence[ReleaseResult]
) -> str:
    undefended = next((r for r in releases if r.defense == "none" and r.reference), None)
    if undefended is None or not findings:
        return ""
    for f in undefended.findings:
        if (f.attack, f.metric) == (attack, findings[0].metric) and f.value is not None:
            seen = f"{f.k} of {f.n}" if f.k is not None else percent(f.value)
            return f", undefended {seen}"
    return ""


def _promise(release: ReleaseResult) -> str:
    g = release.guarantee
    if g.epsilon is None:
        return "What was promised is unknown."
    if math.isinf(g.epsilon):
        return "Nothing was promised."
    order = f", Rényi order {g.alpha:g}" if g.alpha is not None else ""
    order += f", δ = {g.delta:.2g}" if g.delta else ""
    spent = max((e for s in release.sessions for e in s.epsilon_spent), default=None)
    used = "" if spent is None else f"; spent at most {spent:.3g}"
    return f"Promised: ε = {g.epsilon:g} nats per {g.unit} ({g.relation}){order}, {g.basis}{used}."


def _between(releases: Sequence[ReleaseResult]) -> str:
    marks = []
    for name, word in (("none", "undefended"), ("public", "public")):
        for release in releases:
            utility = release.utility.get("perplexity")
            if release.defense == name and release.reference and utility:
                marks.append(f"{word} {_number(utility.value)}")
    return f" ({', '.join(marks)})" if marks else ""


def _number(value: float) -> str:
    """Three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
