"""Lower bounds on ε beside the claimed ε: what may be concluded from them, and what may not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.terms import OnClaim
from audit.results import words
from audit.results.schema import EpsilonLower, FindingResult, GuaranteeResult, ReleaseResult
from reports._content import verdicts, wording
from reports._content.releases import NamedRelease
from reports._content.table import Table

NOTE = (
    "A lower bound limits how private a release can be. It never shows that a release is private, "
    "so a bound below the claim is no proof of safety. Each bound holds by itself at its "
    "confidence, for the planted user with all copies; refutations are adjusted for all tests of "
    "the claim."
)


@dataclass(frozen=True)
class Comparison:
    """The claim of one release and every bound above 0 on its ε, if any.

    grounds: conclusions, each with the bounds that lead to it.
    """

    name: str
    role: str
    reference: bool
    anchor: str
    claim: str
    count: int
    grounds: list[tuple[str, list[Table]]]


def comparisons(releases: Sequence[NamedRelease]) -> list[Comparison]:
    """Compare claim and bounds of audited releases, then of references with a bound above 0."""
    order = sorted(releases, key=lambda one: one.release.reference)
    return [_comparison(one) for one in order if is_shown(one.release)]


def is_shown(release: ReleaseResult) -> bool:
    """Return whether there is a claim of an audited release to show, or a bound."""
    return bool(bounded(release) or (release.findings and not release.reference))


def bounded(release: ReleaseResult) -> list[tuple[FindingResult, EpsilonLower]]:
    """Return the findings that bound ε away from 0, with their bounds."""
    pairs = [(finding, finding.epsilon_lower) for finding in release.findings]
    return [(finding, bound) for finding, bound in pairs if bound is not None and bound.value > 0]


def largest(release: ReleaseResult) -> tuple[FindingResult, EpsilonLower] | None:
    """Return the finding with the largest bound on ε above 0."""
    return max(bounded(release), key=lambda pair: pair[1].value, default=None)


def _comparison(one: NamedRelease) -> Comparison:
    guarantee, pairs = one.release.guarantee, bounded(one.release)
    grounds: dict[str, dict[str, list[list[str]]]] = {}
    for finding, bound in pairs:
        row = [wording.measurement(finding), words.at_least(bound.value), _evidence(bound)]
        row.append(verdicts.both(finding))
        alike = grounds.setdefault(conclusion(guarantee, finding, bound), {})
        scope, delta = wording.per_unit(bound.unit, bound.relation), words.at_most(bound.delta)
        caption = (
            f"{one.name}: lower bounds on ε in nats {scope} at δ = {delta}, each at "
            f"{words.share(bound.confidence)} confidence, under {_hypothesis(bound)}"
        )
        alike.setdefault(caption, []).append(row)
    head = ["Measure", "ε at least", "Evidence", "Leaked; the claim"]
    return Comparison(
        name=one.name,
        role=wording.clip(one.release.role, 60),
        reference=one.release.reference,
        anchor=one.anchor,
        claim=wording.claim(guarantee),
        count=len(pairs),
        grounds=[
            (sentence, [Table(caption, head, rows) for caption, rows in tables.items()])
            for sentence, tables in grounds.items()
        ]
        or [("No attack showed a bound above 0, which is no proof of safety.", [])],
    )


def _hypothesis(bound: EpsilonLower) -> str:
    return "no hypothesis" if bound.hypothesis == "none" else bound.hypothesis


def conclusion(guarantee: GuaranteeResult, finding: FindingResult, bound: EpsilonLower) -> str:
    """Describe a bound's answer on a claim; only the finding's answer decides that."""
    claimed = guarantee.epsilon
    if finding.claim == OnClaim.REFUTED:
        return "Refuted: the claim does not allow what was measured."
    if finding.stronger_than_release:
        return "Read with more than the release gives: no evidence on the claim, for or against."
    if claimed is None:
        return "The claim is unknown: there is nothing to compare the bound with."
    if math.isinf(claimed):
        return "Nothing was claimed, so the bound contradicts nothing."
    test = finding.claim_test
    if finding.claim == OnClaim.NOT_TESTABLE or test is not None:
        if unlike := difference(guarantee, bound):
            return f"Not comparable, in either direction. {unlike}"
        return f"{test.mechanism}: see the test of the claim." if test else finding.claim_sentence
    if bound.value > claimed:
        loose = bound.delta < (guarantee.delta or 0.0)
        why = "at a smaller δ than it allows" if loose else "not once adjusted for all tests of it"
        return f"Above the claim, but {why}: no refutation."
    return "Below the claim: consistent with it, and no proof of safety."


def difference(guarantee: GuaranteeResult, bound: EpsilonLower) -> str:
    """Explain why a claim and a bound may not be ranked; empty where they may."""
    claim = [wording.per_unit(guarantee.unit, guarantee.relation)]
    if guarantee.alpha is not None:
        claim.append(f"a Rényi divergence of order {words.number(guarantee.alpha)}")
    if guarantee.basis != "worst case":
        claim.append(guarantee.basis)
    if bound.delta < (guarantee.delta or 0.0):  # a bound at a larger δ holds at a smaller one
        claim.append(f"at δ = {words.at_most(guarantee.delta or 0.0)}")
    scope = wording.per_unit(bound.unit, bound.relation)
    if claim == [scope]:
        return ""
    at = f"(ε, δ = {words.at_most(bound.delta)})"
    return f"The claim is {', '.join(claim)}; the bound is {scope}, {at}, for the worst case."


def explained(bound: EpsilonLower | None) -> str:
    """Write a bound with its δ, confidence, hypothesis, method and evidence."""
    if bound is None:
        return "no bound"
    scope = wording.per_unit(bound.unit, bound.relation)
    least = wording.bound(bound) if bound.value > 0 else f"nothing above ε = 0 {scope}"
    return (
        f"{least} at δ = {words.at_most(bound.delta)}, {words.share(bound.confidence)} "
        f"confidence, under {_hypothesis(bound)}, by {_evidence(bound)}"
    )


def _evidence(bound: EpsilonLower) -> str:
    if bound.method == "one_run":
        pairs = [f"{words.integer(v)} of {words.integer(r)}" for r, v in bound.guesses or []]
        return f"one run: {', '.join(pairs) or '—'} guesses right on {words.integer(bound.m)} coins"
    rank, space = ("—" if x is None else words.number(x) for x in (bound.rank, bound.space))
    secrets = words.integer(bound.n)
    return f"rank: lower median {rank} of {space} candidates, {secrets} secrets"
