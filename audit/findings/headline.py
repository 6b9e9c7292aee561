"""The headline: one sentence on what each audited release leaked, promised and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.core.terms import Leaked, OnClaim
from audit.findings.bounds import at_delta
from audit.findings.verdict import leaks
from audit.results.schema import ChargeTest, EpsilonLower, FindingResult, ReleaseResult
from audit.results.words import at_least, at_most, number, percent
from audit.statistics.interval import one_sided_upper


def headline(releases: Sequence[ReleaseResult]) -> str:
    """Writes one sentence for each audited release, joined."""
    audited = [r for r in releases if not r.reference]
    return " ".join(_one_line(release, releases) for release in audited)


def _one_line(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    own = [f for f in release.findings if not f.stronger_than_release]
    measured = [f for f in own if f.value is not None or leaks(f)]
    parts = []
    for attack in dict.fromkeys(f.attack for f in release.findings):
        of_attack = [f for f in measured if f.attack == attack]
        if of_attack:
            beside = _beside(attack, of_attack, releases)
            parts.append(_attack_words(_spaced(attack), of_attack, beside))
        else:
            beyond = all(f.stronger_than_release for f in release.findings if f.attack == attack)
            why = "asks more than the release gives" if beyond else "was not measured"
            parts.append(f"{_spaced(attack)} {why}")
    text = f"{release.defense}: " + "; ".join(parts)
    utility = release.utility.get("perplexity")
    cost = f" Perplexity {_number(utility.value)}{_between(releases)}." if utility else ""
    return f"{text}. {_promise(release)}{_claim_words(release)}{cost}"


def _attack_words(attack: str, findings: Sequence[FindingResult], beside: str) -> str:
    tests = [(f, f.charge_test) for f in findings if f.charge_test is not None]
    if len(tests) == len(findings):
        return f"{attack} finds {' and '.join(_charged(*pair) for pair in tests)}"
    first = _quoted(findings)
    name, amount = _spaced(first.metric), _amount(first)
    if leaks(first):
        return f"{attack} finds a leak ({name} {amount}{beside})"
    words = [f.leaked for f in findings if f.value is not None and f.p_value is not None]
    silent = words.count(Leaked.NONE_FOUND)
    if silent:
        upper = None if first.k is None else one_sided_upper(first.k, first.n)
        most = "" if upper is None else f", at most {percent(upper)}"
        part = "" if silent == len(words) else f" in {silent} of {len(words)} measures"
        rest = "" if silent == len(words) else "; the others are inconclusive"
        return f"{attack} finds no leak{part} ({name} {amount}{most}{beside}){rest}"
    return f"{attack} is inconclusive ({name} {amount}{beside})"


def _charged(finding: FindingResult, test: ChargeTest) -> str:
    """Words what queries tell beside their charges; a service's own claim is the sum of these."""
    share = finding.value or 0.0
    if test.exceeded:
        most = f"{at_least(share)} times it"
        return f"{test.exceeded:,} of {test.queries:,} queries beyond their charge, up to {most}"
    if test.exceeded == 0:
        return f"all {test.queries:,} queries within their charge, the nearest at {at_least(share)}"
    won = f"turn 1 into {number(share)}"
    return f"that {test.queries:,} bets on charges being too small {won} (p = {test.p_value:.2g})"


def _claim_words(release: ReleaseResult) -> str:
    """Words what the run says about the claim: refuted and by what, not refuted, or not tested."""
    if release.claim == OnClaim.REFUTED:
        by = [f for f in release.findings if f.claim == OnClaim.REFUTED]
        names = dict.fromkeys(f"{_spaced(f.attack)} ({_spaced(f.metric)})" for f in by)
        shown = ", ".join(list(names)[:3]) + (
            f" and {len(names) - 3} more" if len(names) > 3 else ""
        )
        return f" The claim is refuted by {shown}."
    if release.claim == OnClaim.NOT_REFUTED:
        at = release.guarantee.delta or 0.0
        most = max((at_delta(b, at) for b in _comparable(release)), default=None)
        shown = "" if not most else f": at least {at_least(most)} was shown"
        return f" The claim is not refuted{shown}, which is no proof of it."
    if release.claim == OnClaim.NOT_TESTABLE:
        closest = sorted(release.findings, key=lambda f: not (f.epsilon_lower or f.claim_test))
        reasons = (f.claim_sentence.partition(": ")[2] for f in closest)
        why = next(filter(None, reasons), "no bound on ε")
        return f" The claim was not tested: {why.rstrip('.')}."
    return ""


def _comparable(release: ReleaseResult) -> list[EpsilonLower]:
    tested = [f for f in release.findings if f.claim == OnClaim.NOT_REFUTED]
    return [f.epsilon_lower for f in tested if f.epsilon_lower is not None]


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _quoted(findings: Sequence[FindingResult]) -> FindingResult:
    """Picks the finding that stands for an attack: a leak, else no leak found, else the first."""
    silent = next((f for f in findings if f.leaked == Leaked.NONE_FOUND), findings[0])
    return next((f for f in findings if leaks(f)), silent)


def _amount(finding: FindingResult) -> str:
    if finding.k is not None:
        return f"{finding.k} of {finding.n}"
    if finding.value is None:
        return "known within bounds only"
    if finding.unit in ("bits", "AUC"):
        return f"{finding.value:.3g}" + (" bits" if finding.unit == "bits" else "")
    return percent(finding.value)


def _beside(
    attack: str, findings: Sequence[FindingResult], releases: Sequence[ReleaseResult]
) -> str:
    undefended = next((r for r in releases if r.defense == "none" and r.reference), None)
    if undefended is None or not findings:
        return ""
    metric = _quoted(findings).metric
    for f in undefended.findings:
        if (f.attack, f.metric) == (attack, metric) and f.value is not None:
            return f", undefended {_amount(f)}"
    return ""


def _promise(release: ReleaseResult) -> str:
    g = release.guarantee
    if g.epsilon is None:
        return "What was promised is unknown."
    if math.isinf(g.epsilon):
        return "Nothing was promised."
    order = f", Rényi order {g.alpha:g}" if g.alpha is not None else ""
    order += f", δ = {at_most(g.delta, 2)}" if g.delta else ""
    spent = max((e for s in release.sessions for e in s.epsilon_spent), default=None)
    used = "" if spent is None else f"; spent at most {at_most(spent)}"
    promised = f"Promised: ε = {at_most(g.epsilon)} nats per {g.unit} ({g.relation})"
    return f"{promised}{order}, {g.basis}{used}."


def _between(releases: Sequence[ReleaseResult]) -> str:
    marks = []
    for name, word in (("none", "undefended"), ("public", "public")):
        for release in releases:
            utility = release.utility.get("perplexity")
            if release.defense == name and release.reference and utility:
                marks.append(f"{word} {_number(utility.value)}")
    return f" ({', '.join(marks)})" if marks else ""


def _number(value: float) -> str:
    """Formats three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
