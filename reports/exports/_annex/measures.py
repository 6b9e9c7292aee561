"""Rows that are answered by attacks: what they measured, and which of them were not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.core.terms import Leaked, OnClaim
from audit.results import quoting, words
from audit.results.schema import FindingResult, ReleaseResult
from reports._content import claims, summary, verdicts, wording
from reports.exports._annex.document import Answer, Fact, Figure
from reports.exports._annex.rows import Asked
from reports.exports._annex.view import MOST, Evidence, One, View, name_of

# By what a row asks for: what attackers read that belongs to the other row.
_OTHER = {"text": ("score", "distribution"), "probabilities": ("generate", "text")}


def measures(view: View, asked: Asked, among: Sequence[One] | None = None) -> Evidence:
    """Answer a row by all measures of its attacks, on every audited release."""
    releases = view.audited if among is None else among
    found = [[f for f in one.release.findings if counts(view, asked, f)] for one in releases]
    answer = overall(map(of, found), view.partial or asked.partial)
    shown = {one.anchor for one in view.shown}
    figures = [
        figure(one.release, one.name, f)
        for one, findings in zip(releases, found, strict=True)
        for f in (quotes(findings) if one.anchor in shown else ())
    ]
    every = [f for findings in found for f in findings]
    places = view.sections_of(f.attack for f in every)
    if answer == Answer.NOT_COVERED:
        return Evidence(answer, [], figures, places, _uncovered(view, asked, every))
    missing = [one.name for one, fs in zip(releases, found, strict=True)
               if of(fs) == Answer.NOT_COVERED]  # fmt: skip
    return Evidence(answer, _without(missing), figures, places)


def _without(names: Sequence[str]) -> list[Fact]:
    """Name the releases that leave a row open, since nothing was measured on them."""
    rest = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    text = ", ".join(names[:MOST]) + rest
    return [Fact(term="Not measured on", text=text)] if names else []


WORST = (Answer.LEAK, Answer.REFUTED, Answer.INSIDERS)  # the first the worst


def counts(view: View, asked: Asked, finding: FindingResult) -> bool:
    """Return whether a finding is of the families and the access of a row.

    An attack of another package counts for every family, and so does an access that is not known,
    so that no leak is left out.
    """
    known = view.knows(finding.attack)
    family = known is None or not asked.families or bool({*known.families} & {*asked.families})
    other = _OTHER.get(asked.access, ())
    return family and finding.access not in other


def of(findings: Sequence[FindingResult]) -> Answer:
    """Answer for one release: a leak, then one to insiders; what is open stays open.

    So does what was in part removed before training: what the removal missed is not covered.
    """
    answers = {finding.leaked for finding in findings}
    if Leaked.LEAK in answers:
        return Answer.LEAK
    if any(finding.claim == OnClaim.REFUTED for finding in findings):
        return Answer.REFUTED
    if Leaked.INSIDERS in answers:
        return Answer.INSIDERS
    silent = Leaked.NONE_FOUND in answers
    if Leaked.INCONCLUSIVE in answers or (silent and any(f.removed for f in findings)):
        return Answer.INCONCLUSIVE
    return Answer.NONE_FOUND if silent else Answer.NOT_COVERED


def overall(answers: Iterable[Answer], partly: bool) -> Answer:
    """Answer for all releases: the worst; where one has no measure, or only in part, open."""
    distinct = {*answers}
    for bad in WORST:
        if bad in distinct:
            return bad
    if distinct <= {Answer.NOT_COVERED}:
        return Answer.NOT_COVERED
    return Answer.INCONCLUSIVE if partly or distinct != {Answer.NONE_FOUND} else Answer.NONE_FOUND


def quotes(findings: Sequence[FindingResult]) -> list[FindingResult]:
    """Choose the finding that each attack is quoted by, and the deciding one where it differs."""
    chosen = []
    for attack in dict.fromkeys(f.attack for f in findings):
        several = [f for f in findings if f.attack == attack]
        deciding = [f for f in several if of([f]) == of(several)]
        deciding = deciding or [f for f in several if f.removed]
        first, second = quoting.quoted(several), quoting.quoted(deciding)
        chosen += [first] if of([first]) == of([second]) else [first, second]
    return chosen


def figure(release: ReleaseResult, name: str, f: FindingResult) -> Figure:
    """Copy one measure, with what readers need to weigh it."""
    bound = f.epsilon_lower
    count = f"n = {words.integer(f.n)}" if f.k is None else _share(f.k, f.n)
    return Figure(
        release=name,
        **{key: getattr(f, key) for key in _COPIED},
        control=None if f.control is None else f.control.value,
        epsilon_lower=None if bound is None else bound.value,
        epsilon_scope="" if bound is None else claims.explained(bound),
        tally=summary.tally(release, f.attack),
        name=wording.clip(wording.measurement(f), 120),
        measured=f"{verdicts.measured(f)} ({words.share(f.confidence)}), {f.unit}; {count}",
        certainty=summary.certainty(f, release.guarantee),
        answer=verdicts.leaked(f),
        on_claim=verdicts.claim(f),
    )


_COPIED = (
    *("attack", "metric", "access", "stronger_than_release", "unit", "value", "ci"),
    *("confidence", "method", "k", "n", "leaked", "claim"),
)


def _share(k: int, n: int) -> str:
    return f"{words.integer(k)} of {words.integer(n)}"


def _uncovered(view: View, asked: Asked, silent: Sequence[FindingResult]) -> str:
    """Explain why no measure answers a row. silent: findings of its attacks without a value."""
    if not view.audited:
        return "No release was audited."
    if silent:
        return f"Run, but nothing was measured: {silent[0].sentence}"
    fit = [name for name, known in view.known.items() if {*known.families} & {*asked.families}]
    every = {name_of(f.attack) for one in view.audited for f in one.release.findings}
    ran = [name for name in fit if name in every]
    if ran:
        return f"Run, but without a measure of this kind: {_named(ran)}."
    return f"Not run: {_named(fit)}." if fit else "No attack of this version measures it."


def _named(attacks: Iterable[str]) -> str:
    return ", ".join(map(wording.spelled, attacks))


def everybody(view: View, asked: Asked) -> Evidence:
    """Answer for each person: a leak where there is one, and otherwise nothing."""
    seen = measures(view, asked)
    facts = [
        Fact(
            term="Measured",
            text=f"{words.integer(view.results.corpus.planted_users)} users with planted secrets, "
            f"of {words.integer(view.results.corpus.users)} users of the corpus",
        )
    ]
    return Evidence(seen.answer, [*facts, *seen.facts], seen.figures, seen.places, seen.note)


def synthetic(view: View, asked: Asked) -> Evidence:
    """Answer for the releases that are text."""
    texts = [one for one in view.audited if one.release.guarantee.release == "text"]
    if not texts:
        return Evidence(Answer.NOT_COVERED, note="No text was released.")
    return measures(view, asked, texts)
