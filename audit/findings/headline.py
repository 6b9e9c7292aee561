"""The headline: one sentence on what each audited release leaked, promised and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.core.terms import Verdict
from audit.findings.verdict import leaks
from audit.results.schema import FindingResult, ReleaseResult
from audit.results.words import percent
from audit.statistics.interval import one_sided_upper


def headline(releases: Sequence[ReleaseResult]) -> str:
    """Writes one sentence for each audited release, joined."""
    audited = [r for r in releases if not r.reference]
    return " ".join(_one_line(release, releases) for release in audited)


def _one_line(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    measured = [f for f in release.findings if f.value is not None and not f.stronger_than_release]
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
    promised = _promise(release)
    utility = release.utility.get("perplexity")
    cost = f" Perplexity {_number(utility.value)}{_between(releases)}." if utility else ""
    return f"{text}. {promised}{cost}"


def _attack_words(attack: str, findings: Sequence[FindingResult], beside: str) -> str:
    verdicts = [f.verdict for f in findings]
    if Verdict.REFUTED in verdicts:
        return f"{attack} refutes the claimed guarantee"
    first = _quoted(findings)
    name, amount = _spaced(first.metric), _amount(first)
    if any(leaks(f) for f in findings):
        return f"{attack} finds a leak ({name} {amount}{beside})"
    if Verdict.SILENT in verdicts:
        upper = None if first.k is None else one_sided_upper(first.k, first.n)
        most = "" if upper is None else f", at most {percent(upper)}"
        return f"{attack} finds no leak ({name} {amount}{most}{beside})"
    return f"{attack} is inconclusive ({name} {amount}{beside})"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _quoted(findings: Sequence[FindingResult]) -> FindingResult:
    """Picks the finding that stands for an attack: the first that leaks, else the first."""
    return next((f for f in findings if leaks(f)), findings[0])


def _amount(finding: FindingResult) -> str:
    if finding.k is not None:
        return f"{finding.k} of {finding.n}"
    if finding.unit in ("bits", "AUC"):
        return f"{finding.value or 0.0:.3g}" + (" bits" if finding.unit == "bits" else "")
    return percent(finding.value or 0.0)


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
    """Formats three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
