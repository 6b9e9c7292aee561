"""Gate rules that apply without an audit.toml: no leak in a defended release, no claim refuted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from audit.core.terms import Leaked, OnClaim
from audit.findings.leaked import above_chance
from audit.findings.rejections import shown_of
from audit.findings.shows import first_missing
from audit.gate.outcome import Check, State
from audit.gate.policy import ACCEPT, Policy
from audit.gate.strength import UNTRAINED, between, counted
from audit.results.joined import is_open_exhibit
from audit.results.schema import FindingResult, ReleaseResult
from audit.results.words import at_least, at_most, count

_UNTESTED = "No test of the claim: "


def checks(
    label: str, release: ReleaseResult, allowed: Mapping[str, str], every: bool, policy: Policy
) -> Iterator[Check]:
    """Check a release for leaks (see `leak_checks`), and its claim unless that is switched off."""
    yield from leak_checks(label, release, allowed, every, policy)
    if policy.empirical:
        yield claim_check(label, release)


def leak_checks(
    label: str,
    release: ReleaseResult,
    allowed: Mapping[str, str],
    every: bool,
    policy: Policy,
) -> Iterator[Check]:
    """Check each finding for a leak, and add a check for each attack that measured nothing.

    A test of charges does not look for a leak: `claim_check` reads it. allowed: by `attack.metric`,
    what allows a leak of this name, if it has a value to allow. every: whether findings without a
    leak have a check, too. policy: decides on a leak to those who have more access than the release
    gives, which nothing allows by name, and on what was removed before training.
    """
    to_insiders = State.FAIL if policy.insiders else State.WARNED
    of_removed = State.SKIPPED if policy.removed == ACCEPT else State.INCONCLUSIVE
    searches = [f for f in release.findings if f.charge_test is None]
    for attack in dict.fromkeys(finding.attack for finding in searches):
        of_attack = [f for f in searches if f.attack == attack]
        applicable = [f for f in of_attack if not f.stronger_than_release]
        removed = [f for f in applicable if f.removed]
        answered = [f for f in applicable if f.value is not None or f.leaked == Leaked.LEAK]
        known = [f for f in answered if not f.removed]
        inside = [f for f in of_attack if f.leaked == Leaked.INSIDERS]
        if every and not applicable and not inside:
            why = "needs more access than the release gives"
            yield Check("leak", label, attack, State.SKIPPED, f"{attack} {why}")
        elif every and not known and len(removed) < len(applicable):
            why = "measured nothing, which does not show that the release is safe"
            yield Check("leak", label, attack, State.INCONCLUSIVE, f"{attack} {why}")
        for finding in known:
            if every or finding.leaked == Leaked.LEAK:
                yield _leak(label, finding, allowed)
        for finding in removed if every else ():
            assert finding.silence is not None
            sentence = f"not measured: {finding.silence.contact.by.rstrip('.')}"
            yield Check("leak", label, finding.name, of_removed, sentence)
        for finding in inside:
            sentence = f"a {Leaked.INSIDERS} ({measured(finding)}); the release gives less access"
            yield Check("leak", label, finding.name, to_insiders, sentence)


def _leak(label: str, finding: FindingResult, allowed: Mapping[str, str]) -> Check:
    seen, name = measured(finding), finding.name
    # A limit on a figure that hides the leak would not hold it.
    shown = finding.value is not None and above_chance(finding)
    if finding.leaked == Leaked.LEAK and name in allowed and shown:
        state, sentence = State.SKIPPED, f"a leak ({seen}), which {allowed[name]} allows by name"
    elif finding.leaked == Leaked.LEAK:
        state, sentence = State.FAIL, f"a leak ({seen})"
    elif finding.leaked == Leaked.NONE_FOUND and not _missing(finding):
        state, sentence = State.PASS, f"not told apart from chance ({seen})"
    elif finding.exhibit is not None and not is_open_exhibit(finding):
        state, sentence = State.SKIPPED, f"an exhibit, which shows a leak or nothing ({seen})"
    else:
        why = "; ".join(filter(None, [f"({seen})", _missing(finding)]))
        state, sentence = State.INCONCLUSIVE, f"neither a leak nor its absence is shown {why}"
    return Check("leak", label, name, state, sentence)


def _missing(finding: FindingResult) -> str:
    """Return the first condition of "no leak found" that was not shown; empty where all were."""
    if finding.silence is None:
        return "its conditions were not examined"
    link = first_missing(finding.silence)
    return "" if link is None else link.by.rstrip(".")


def measured(finding: FindingResult) -> str:
    """Format a finding's value with its interval, its trials and its p-value."""
    p = "" if finding.p_value is None else f"p = {finding.p_value:.2g}"
    if finding.value is None:
        within = ", ".join(filter(None, ["known within bounds only", p]))
        return within if finding.leaked == Leaked.LEAK else "not measured"
    trials = f"{finding.k} of {finding.n}" if counted(finding) else f"n = {finding.n}"
    return ", ".join(filter(None, [f"{finding.value:.4g}{between(finding.ci)}, {trials}", p]))


def claim_check(label: str, release: ReleaseResult) -> Check:
    """Check whether the attacks refute the claim, adjusted for all tests of it.

    FAIL: a measure refutes the claim. INCONCLUSIVE: no outcome could have refuted it, or a single
    bound is above it without that adjustment. SKIPPED: nothing is claimed, or it is of another kind
    than any bound.
    """
    claim = release.guarantee

    def check(state: State, sentence: str) -> Check:
        return Check("empirical", label, "", state, sentence)

    if claim.epsilon is None or math.isinf(claim.epsilon):
        return check(State.SKIPPED, "no ε is claimed, so none can be exceeded")
    claimed = f"claimed: ε = {at_most(claim.epsilon, 4)} nats per {claim.unit} ({claim.relation})"
    refuting = _words(release, {OnClaim.REFUTED})
    if refuting:
        by = ", ".join(f.name for f in refuting)
        return check(State.FAIL, f"{claimed}; refuted by {by}")
    tested = _words(release, {OnClaim.NOT_REFUTED})
    if not tested:
        return check(*_untested(release, claimed))
    most = max(shown_of(tested, claim), default=None)
    seen = "; ".join([claimed, *_seen(tested, most)])
    if most is not None and most > claim.epsilon:
        weak = "above the claim, but not significant once adjusted for all tests of it"
        return check(State.INCONCLUSIVE, f"{seen}; {weak}")
    return check(State.PASS, f"{seen}; not refuted")


def _seen(tested: Sequence[FindingResult], most: float | None) -> Iterator[str]:
    """Describe what the tests of the claim saw, each kind once."""
    if most is not None:
        yield f"measured: at least {at_least(most, 4)}, confidence 95% each"
    for finding in tested:
        if finding.charge_test is not None:
            asked = count(finding.charge_test.queries, "query", "queries")
            yield f"{asked} beside their charges ({finding.metric})"


def _untested(release: ReleaseResult, claimed: str) -> tuple[State, str]:
    """Explain why no measure tested the claim: another kind is not a fault, too few trials are."""
    own = [f for f in release.findings if not f.stronger_than_release]
    able = [f for f in own if f.epsilon_lower is not None or f.claim_test is not None]
    if not able:
        return State.INCONCLUSIVE, f"{claimed}; no attack of this run gives a bound on ε"
    if any(f.untrained for f in able):
        return State.INCONCLUSIVE, f"{claimed}; {UNTRAINED}"
    alike = [f for f in able if f.claim_test is not None or not _unlike(f, release)]
    why = (alike or able)[0].claim_sentence.removeprefix(_UNTESTED).rstrip(".")
    if not alike:
        return State.SKIPPED, f"{claimed}; no attack of this run tests it: {why}"
    return State.INCONCLUSIVE, f"{claimed}; {why}"


def _unlike(finding: FindingResult, release: ReleaseResult) -> bool:
    bound, claim = finding.epsilon_lower, release.guarantee
    return bound is not None and bool(claim.incomparable(bound.unit, bound.relation, claim.delta))


def _words(release: ReleaseResult, words: Collection[OnClaim]) -> Sequence[FindingResult]:
    return [f for f in release.findings if f.claim in words]
