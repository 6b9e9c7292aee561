"""The meaning of the columns, marks and notes of the table of page one, each worded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.core.terms import Leaked
from audit.results import words
from audit.results.schema import ReleaseResult
from reports._content.releases import NamedRelease
from reports._content.strip import Strip

# The roles of references, in which "{}" is the audited defense, and their columns.
CONTROLS = (
    (
        "positive control of {}",
        "Protection off",
        "the models of the defense, read without what protects them",
    ),
    (
        "positive control",
        "Undefended",
        "one model trained on the same text without any defense (none)",
    ),
    ("null control", "Public", "a model that never saw the text"),
)
_BLIND = (
    "Blind: the same test by a classifier that reads the candidates and no model; fair coins leave "
    "it to chance."
)
LINKS = {  # what each condition of "no leak found" means
    "Contact": "the text reached the model",
    "Sight": "these measures see such text",
    "Reach": "leaks of the stated size are found in 4 of 5 runs",
}
_ALL = ", ".join(LINKS.values())
EARNED = {  # where every condition is shown, by what a release is called
    Leaked.NONE_FOUND: f"“No leak found” is earned here: {_ALL}.",
    Leaked.INCONCLUSIVE: "“No leak found” is not earned here: "
    "a measure is neither a leak nor silent.",
    Leaked.LEAK: f"Measures that found no leak have earned that: {_ALL}.",
}
ENDED = "*"  # behind an interval
ENDS = (
    f"{ENDED} Where answers can end a session, its interval is wider than that of a fixed number "
    "of tries."
)
_WORDS = "Every word: see “How to read it”."
_TWINS = "people like those planted who were not trained on"
_BAR = "Bar: usefulness, from the public model (0\u00a0%) to the undefended one (100\u00a0%)."


def meanings(heads: Sequence[str]) -> list[str]:
    """Explain the columns of controls among these heads."""
    return [f"{head}: {meaning}." for _, head, meaning in CONTROLS if head in heads]


def legend(
    heads: Sequence[str], strips: Sequence[Strip], blind: bool, ends: bool, ranked: bool
) -> list[str]:
    """Explain the marks that are there, and which models two columns of trained ones are of.

    blind: whether a value stands beside the twins that no model was read for. ends: whether answers
    could end a session, for which an interval is wider. ranked: whether twins are told by ranks.
    """
    trained = [head for _, head, _ in CONTROLS[:2]]
    lines = meanings([head for head in heads if head in trained]) if trained[0] in heads else []
    if any(one.undefended is not None for one in strips):
        lines.append("Black line: the same measure of the undefended model.")
    if any(one.twins is not None for one in strips):
        lines.append(f"Grey band: twins, {_TWINS}.")
    elif ranked:
        lines.append(f"Twins: {_TWINS}; less likely to the model by ranks over all of them.")
    lines += [_BLIND] if blind else []
    if not all(one.mark for one in strips):
        lines.append(_BAR)
    return [*lines, *([ENDS] if ends else []), _WORDS]


def note(releases: Sequence[ReleaseResult], heads: Sequence[str]) -> str:
    """Explain the intervals, what a leak is, and all columns."""
    findings = [finding for release in releases for finding in release.findings]
    levels = sorted({finding.confidence for finding in findings})
    confidence = " or ".join(words.share(level) for level in levels) or "95 %"
    sentences = [f"In brackets: intervals at {confidence} confidence."]
    sentences.append(
        "A leak: a test against the coins or against chance rejects, adjusted for all tests of the "
        "release; intervals that overlap do not contradict it."
    )
    if any(finding.stronger_than_release for finding in findings):
        sentences.append("Insiders: they read more than the release gives.")
    sentences.append("Twins: secrets drawn alike and never trained on.")
    if any(finding.blind for finding in findings):
        sentences.append(_BLIND)
    return " ".join([*sentences, *meanings(heads)])


def unmeasured(shown: Sequence[NamedRelease]) -> Iterator[str]:
    """Yield one sentence for each audited service whose budget ended before an attack did."""
    for one in shown:
        release = one.release
        budget = max((s.budget for s in release.sessions if s.budget is not None), default=None)
        cut = _cut_short(release)
        if release.reference or budget is None or not cut:
            continue
        count = words.count(cut, "measure was", "measures were")
        yield (
            f"{one.name}: {count} not made, because a session answers at most "
            f"{words.integer(budget)} queries{_stopped(release)}. A larger budget, or fewer "
            "planted users, would let them be made."
        )


def _cut_short(release: ReleaseResult) -> int:
    """Count the measures without a value and without an answer, in a session with a budget."""
    ended = {s.purpose for s in release.sessions if s.budget is not None}
    left = (f for f in release.findings if f.leaked == Leaked.NOT_MEASURED and f.attack in ended)
    return sum(finding.value is None and finding.n == 0 for finding in left)


def _stopped(release: ReleaseResult) -> str:
    """Describe how early its budget of ε ended a session, if it did."""
    stops = [s.answered for s in release.sessions if s.stopped_at is not None]
    return f", and its ε ended the shortest after {words.integer(min(stops))}" if stops else ""
