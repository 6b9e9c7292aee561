"""The headline: one sentence on what each audited release leaked, promised and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.core.terms import Leaked, OnClaim
from audit.findings.rejections import most_shown
from audit.findings.verdict import leaks
from audit.results.schema import ChargeTest, FindingResult, ReleaseResult
from audit.results.words import at_least, at_most, number, percent


def headline(releases: Sequence[ReleaseResult]) -> str:
    """Writes one sentence for each audited release, joined."""
    audited = [r for r in releases if not r.reference]
    return " ".join(_one_line(release, releases) for release in audited)


def _one_line(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    found = f"{release.defense}: {_found(release, releases)}."
    return " ".join([found, _promise(release), *_cost(release, releases)])


def _found(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    """Groups the attacks by what they found, leaks first; the first of a group with its figure."""
    groups: dict[str, list[str]] = {answer: [] for answer in _ANSWERS}
    for attack in dict.fromkeys(f.attack for f in release.findings):
        answer, name, seen = _by(attack, release, releases)
        alone = seen and not groups[answer]
        groups[answer].append(f"{name} ({seen})" if alone else name)
    parts = [answer.format(", ".join(names)) for answer, names in groups.items() if names]
    return "; ".join(parts) or "no attack was run"


_LEAK, _NONE, _CHARGES = "a leak by {}", "no leak found by {}", "{}"
_INSIDE = "a leak to those who read more than the release gives, by {}"
_UNSURE, _BEYOND, _UNMEASURED = (
    "inconclusive: {}",
    "asking more than the release gives: {}",
    "not measured: {}",
)
_ANSWERS = (_LEAK, _INSIDE, _NONE, _CHARGES, _UNSURE, _BEYOND, _UNMEASURED)


def _by(
    attack: str, release: ReleaseResult, releases: Sequence[ReleaseResult]
) -> tuple[str, str, str]:
    """Returns what an attack found, its name, and the measure that it is quoted by."""
    of_attack = [f for f in release.findings if f.attack == attack]
    own = [f for f in of_attack if not f.stronger_than_release]
    measured = [f for f in own if f.value is not None or leaks(f)]
    if not own:
        inside = next((f for f in of_attack if f.leaked == Leaked.LEAK), None)
        shown = "" if inside is None else _shown(inside)
        return (_BEYOND if inside is None else _INSIDE), attack, shown
    if not measured:
        return _UNMEASURED, attack, ""
    tests = [(f, f.charge_test) for f in measured if f.charge_test is not None]
    if len(tests) == len(measured):
        return _CHARGES, " and ".join(_charged(*pair) for pair in tests), ""
    first = _quoted(measured)
    seen = _shown(first) + _beside(first, releases, release.defense)
    if leaks(first):
        return _LEAK, attack, seen
    words = [f.leaked for f in measured if f.value is not None and f.p_value is not None]
    silent = words.count(Leaked.NONE_FOUND)
    if silent == len(words) > 0:
        return _NONE, attack, seen
    if not silent:
        return _UNSURE, attack, seen
    unsure = [f for f in measured if f.leaked == Leaked.INCONCLUSIVE and f.value is not None]
    if unsure:
        beside = _beside(unsure[0], releases, release.defense)
        seen = f"open: {_shown(unsure[0])}{beside}"
    return _UNSURE, attack, f"no leak found in {silent} of {len(words)} measures; {seen}"


def _charged(finding: FindingResult, test: ChargeTest) -> str:
    """Words what queries tell beside their charges; a service's own claim is the sum of these."""
    share = finding.value or 0.0
    if test.exceeded:
        most = f"{at_most(share)} times it"
        return f"{test.exceeded:,} of {test.queries:,} queries beyond their charge, up to {most}"
    if test.exceeded == 0:
        nearest = f"the nearest at {at_least(share)}"
        return f"all {test.queries:,} queries compared within their charge, {nearest}"
    won = f"turned 1 into {number(share)}"
    return f"{test.queries:,} bets on charges being too small {won} (p = {test.p_value:.2g})"


def _claim_words(release: ReleaseResult) -> str:
    """Words what the run says about the claim: refuted and by what, not refuted, or not tested."""
    if release.claim == OnClaim.REFUTED:
        by = [f for f in release.findings if f.claim == OnClaim.REFUTED]
        names = dict.fromkeys(f"{_spaced(f.attack)} ({_spaced(f.metric)})" for f in by)
        shown = ", ".join(list(names)[:3]) + (
            f" and {len(names) - 3} more" if len(names) > 3 else ""
        )
        return f"refuted by {shown}"
    if release.claim == OnClaim.NOT_REFUTED:
        claim = release.guarantee.claim
        most = most_shown(release.findings, claim) or 0.0
        shown = f"; at least {at_least(most)} was shown" if most > 0 else ""
        unsure = ", not beyond doubt once adjusted" if most > (claim.epsilon or 0.0) else ""
        return f"not refuted{shown}{unsure}"
    return "not tested by these attacks"


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _quoted(findings: Sequence[FindingResult]) -> FindingResult:
    """Picks the finding that stands for an attack: a leak, else no leak found, else the first."""
    silent = next((f for f in findings if f.leaked == Leaked.NONE_FOUND), findings[0])
    return next((f for f in findings if leaks(f)), silent)


def _shown(finding: FindingResult) -> str:
    return f"{_spaced(finding.metric)} {_amount(finding)}"


def _amount(finding: FindingResult) -> str:
    if finding.k is not None:
        return f"{finding.k} of {finding.n}"
    if finding.value is None:
        return "known within bounds only"
    if finding.unit in ("bits", "AUC"):
        return f"{finding.value:.3g}" + (" bits" if finding.unit == "bits" else "")
    return percent(finding.value)


def _beside(finding: FindingResult, releases: Sequence[ReleaseResult], defense: str) -> str:
    """Lays the same figure of the undefended model beside it, and of a service's own models.

    Where these do not leak either, silence is no credit to the protection.
    """
    controls = {
        "undefended": [r for r in releases if r.reference and r.defense == "none"],
        "its models unprotected": [
            r for r in releases if r.role == f"positive control of {defense}"
        ],
    }
    alike = {
        word: f
        for word, found in controls.items()
        for release in found[:1]
        for f in release.findings
        if (f.attack, f.metric) == (finding.attack, finding.metric) and f.value is not None
    }
    return "".join(f", {word} {_amount(f)}" for word, f in alike.items())


def _promise(release: ReleaseResult) -> str:
    g = release.guarantee
    if g.epsilon is None:
        return "What was promised is unknown."
    if math.isinf(g.epsilon):
        return "Nothing was promised."
    kind = f" (Rényi, α = {g.alpha:g})" if g.alpha is not None else ""
    kind += f" (δ = {at_most(g.delta, 2)})" if g.delta else ""
    basis = "" if g.basis == "worst case" else f", {g.basis}"
    promised = f"Promised: ε = {at_most(g.epsilon)} nats{kind} per {g.unit} ({g.relation}){basis}"
    return f"{promised}; {_claim_words(release)}."


def _cost(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> Iterator[str]:
    """Words the perplexity between those of the references, and how much of it the release said."""
    measure = release.utility.get("perplexity")
    if measure is None:
        return
    ended = (s for s in release.sessions if s.purpose == "utility" and s.stopped_at is not None)
    part = next((f", {s.answered:,} of {s.queries:,} tokens before it stopped" for s in ended), "")
    marks = []
    for name, word in (("none", "undefended"), ("public", "public")):
        for other in releases:
            utility = other.utility.get("perplexity")
            if other.defense == name and other.reference and utility:
                marks.append(f"{word} {_number(utility.value)}")
    beside = f" ({', '.join(marks)})" if marks else ""
    yield f"Perplexity {_number(measure.value)}{part}{beside}."


def _number(value: float) -> str:
    """Formats three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
