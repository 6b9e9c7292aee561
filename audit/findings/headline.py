"""The headline: one sentence on what each audited release leaked, promised and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.core.terms import Leaked, OnClaim
from audit.findings.rejections import shown_of
from audit.findings.shows import STATED
from audit.findings.verdict import leaks
from audit.results.joined import leaked_overall
from audit.results.labels import labels
from audit.results.quoting import quoted
from audit.results.schema import ChargeTest, FindingResult, ReleaseResult
from audit.results.silence import REMOVED
from audit.results.words import WEALTH, at_least, at_most, largest_of, number, percent


def headline(releases: Sequence[ReleaseResult]) -> list[str]:
    """Write one line for each audited release; first a null control that leaks."""
    audited = [_one_line(r, releases) for r in releases if not r.reference]
    return [*null_control(releases), *audited]


def null_control(releases: Sequence[ReleaseResult]) -> list[str]:
    """State that the null control leaks, which holds nothing private; empty where it does not."""
    null = [r for r in releases if r.role == "null control"]
    by = dict.fromkeys(f.attack for release in null for f in release.findings if leaks(f))
    names = ", ".join(map(_spaced, by))
    return [f"The null control leaks by {names}: {NULL_LEAKS}."] if names else []


NULL_LEAKS = "by chance, as one run in twenty, or the public model has seen planted text"


def _one_line(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    audited = [r for r in releases if not r.reference]
    name = labels(audited)[audited.index(release)]
    what = f"{name}, texts only" if release.guarantee.release == "text" else name
    found = f"{what}: {_found(release, releases)}."
    return " ".join([found, _promise(release), *_cost(release, releases)])


def _found(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    """Group the attacks by what they found, leaks first; the first of a group with its figure.

    Where several attacks were run, a null result has no figure, and no figure has controls.
    """
    attacks = list(dict.fromkeys(f.attack for f in release.findings))
    groups: dict[str, list[str]] = {answer: [] for answer in _ANSWERS}
    for attack in attacks:
        alone = len(attacks) == 1
        for answer, name, seen in _answers_by(attack, release):
            beside = _beside(seen, releases, release.defense) if seen and alone else ""
            figured = seen is not None and not groups[answer] and (answer != _NONE or alone)
            groups[answer].append(f"{name} ({_shown(seen)}{beside})" if seen and figured else name)
    silent = [attack for attack in attacks if _by(attack, release)[0] == _NONE]
    parts = [answer.format(", ".join(names)) for answer, names in groups.items() if names]
    also = _as_given(silent, release) + _without(silent, release, releases)
    parts = [f"{part}{also}" if part.startswith(_NONE[:-2]) else part for part in parts]
    return "; ".join(parts) or "no attack was run"


_LEAK, _NONE, _CHARGES = "a leak by {}", "no leak found by {}", "{}"
_INSIDE = "a leak to insiders by {}"
_UNSURE, _BEYOND, _UNMEASURED, _REMOVED = (
    "inconclusive: {}",
    "open to insiders only, inconclusive: {}",
    "not measured: {}",
    f"not measured, {REMOVED}: {{}}",
)
_ANSWERS = (_LEAK, _INSIDE, _NONE, _CHARGES, _UNSURE, _BEYOND, _REMOVED, _UNMEASURED)


Answer = tuple[str, str, FindingResult | None]  # what was found, by what, the measure to quote


def _answers_by(attack: str, release: ReleaseResult) -> Iterator[Answer]:
    """Return what an attack found, then a leak to insiders, where it is none of the release."""
    answer = _by(attack, release)
    of_attack = [f for f in release.findings if f.attack == attack]
    inside = [f for f in of_attack if f.leaked == Leaked.INSIDERS]
    if answer[0] != _BEYOND or not inside:
        yield answer
    if answer[0] != _LEAK and inside:
        yield _INSIDE, attack, quoted(inside)


def _by(attack: str, release: ReleaseResult) -> Answer:
    """Return what an attack found, its name, and the measure that it is quoted by."""
    of_attack = [f for f in release.findings if f.attack == attack]
    own = [f for f in of_attack if not f.stronger_than_release]
    measured = [f for f in own if f.value is not None or leaks(f)]
    if not own:
        return _BEYOND, attack, None
    if not measured:
        return _UNMEASURED, attack, None
    tests = [(f, f.charge_test) for f in measured if f.charge_test is not None]
    if len(tests) == len(measured):
        return _CHARGES, " and ".join(_charged(*pair) for pair in tests), None
    first = next((f for f in measured if leaks(f)), quoted(measured))
    if leaks(first):
        return _LEAK, attack, first
    if all(f.removed for f in measured):
        return _REMOVED, attack, None
    if leaked_overall(measured) == Leaked.NONE_FOUND:
        silent = [f for f in measured if f.leaked == Leaked.NONE_FOUND]
        return _NONE, attack, quoted(silent)
    return _UNSURE, attack, first


def _as_given(attacks: Sequence[str], release: ReleaseResult) -> str:
    """Add on what silence rests, where a user stated what was trained on."""
    silent = [f for f in release.findings if f.attack in attacks and f.leaked == Leaked.NONE_FOUND]
    stated = any(f.silence is not None and STATED in f.silence.contact.by for f in silent)
    return " if the text was used as given" if stated else ""


def _without(
    attacks: Sequence[str], release: ReleaseResult, releases: Sequence[ReleaseResult]
) -> str:
    """Describe what attacks without a leak find in a service's own models, with its protection off.

    Only a leak by the same measures credits the protection. A leak by others is named with its
    measure. Where these models do not leak either, finding no leak does not credit it.
    """
    mixture = _mixture(release.defense, releases)
    if mixture is None:
        return ""
    same = {_kind(f) for f in release.findings if f.value is not None}
    measures = [f for f in mixture.findings if _kind(f) in same]
    alike = mixture.model_copy(update={"findings": measures})
    groups: dict[str, list[str]] = {_BUT_ONE: [], _OTHERWISE: [], _NOR: []}
    for attack in attacks:
        same_answer, (answer, _, seen) = _by(attack, alike)[0], _by(attack, mixture)
        if same_answer == _LEAK:
            groups[_BUT_ONE].append(attack)
        elif answer == _LEAK and seen is not None:
            groups[_OTHERWISE].append(f"{attack} ({_spaced(seen.metric)})")
        elif same_answer == _NONE:
            groups[_NOR].append(attack)
    return "".join(
        words + ("" if names == list(attacks) else f" by {', '.join(names)}")
        for words, names in groups.items()
        if names
    )


_BUT_ONE, _OTHERWISE, _NOR = (
    ", but a leak with its protection off",
    ", though with its protection off it leaks",
    ", nor with its protection off",
)


def _kind(finding: FindingResult) -> tuple[str, str, bool]:
    """Name a measure and whether the release gives what it reads."""
    return finding.attack, finding.metric, finding.stronger_than_release


def _mixture(defense: str, releases: Sequence[ReleaseResult]) -> ReleaseResult | None:
    return next((r for r in releases if r.role == f"positive control of {defense}"), None)


def _charged(finding: FindingResult, test: ChargeTest) -> str:
    """Describe what queries reveal beside their charges, whose sum is a service's claim."""
    share = finding.value or 0.0
    if test.exceeded:
        most = f"{at_most(share)} times it"
        worse = f"{test.exceeded:,} of {test.queries:,} queries told more than their charge"
        return f"{worse}, up to {most}"
    if test.exceeded == 0:
        return f"none of {test.queries:,} queries told more than its charge"
    won = f"turned 1 into {number(share)}"
    return f"{test.queries:,} bets on charges being too small {won} (p = {test.p_value:.2g})"


def _claim_words(release: ReleaseResult) -> str:
    """Describe the claim's test: refuted and by what, not refuted, or not tested."""
    if release.claim == OnClaim.REFUTED:
        by = [f for f in release.findings if f.claim == OnClaim.REFUTED]
        names = dict.fromkeys(f"{_spaced(f.attack)} ({_spaced(f.metric)})" for f in by)
        shown = ", ".join(list(names)[:3]) + (
            f" and {len(names) - 3} more" if len(names) > 3 else ""
        )
        return f"refuted by {shown}"
    if release.claim == OnClaim.NOT_REFUTED:
        claim = release.guarantee
        of_claim = shown_of(release.findings, claim)
        most = max(of_claim, default=0.0)
        shown = f"; at least {at_least(most)} was shown" if most > 0 else ""
        unsure = f", {largest_of(len(of_claim))}" if most > 0 and len(of_claim) > 1 else ""
        unsure = ", not beyond doubt once adjusted" if most > (claim.epsilon or 0.0) else unsure
        tried = [f.attack for f in release.findings if f.claim == OnClaim.NOT_REFUTED]
        return f"not refuted by {', '.join(map(_spaced, dict.fromkeys(tried)))}{shown}{unsure}"
    return "not tested by these attacks"


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace(" auc", " AUC")


def _shown(finding: FindingResult) -> str:
    return f"{_spaced(finding.metric)} {_amount(finding)}"


def _amount(finding: FindingResult) -> str:
    if finding.k is not None:
        return f"{finding.k} of {finding.n}"
    if finding.value is None:
        return "known within bounds only"
    if finding.unit in ("bits", "AUC"):
        return f"{finding.value:.3g}" + (" bits" if finding.unit == "bits" else "")
    if finding.unit == WEALTH:
        return f"turned 1 into {number(finding.value)}"
    return percent(finding.value)


def _beside(finding: FindingResult, releases: Sequence[ReleaseResult], defense: str) -> str:
    """Append the same metric for the undefended model, and for a service's own models.

    The latter only beside a leak or an open measure: `_without` describes the rest.
    """
    undefended = [r for r in releases if r.reference and r.defense == "none"][:1]
    mixture = _mixture(defense, releases)
    unprotected = [mixture] if mixture and finding.leaked != Leaked.NONE_FOUND else []
    alike = {
        word: f
        for word, controls in (("undefended", undefended), ("protection off", unprotected))
        for release in controls
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
    scope = f"per {g.unit} ({_spaced(g.relation)}){basis}"
    promised = f"Promised: ε = {at_most(g.epsilon)} nats{kind} {scope}"
    return f"{promised}; {_claim_words(release)}."


def _cost(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> Iterator[str]:
    """Describe the perplexity between the references', and how many tokens the release answered."""
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
    marks += [f"{word} {_number(value)}" for word, value in _controls(release, releases).items()]
    beside = f" ({', '.join(marks)})" if marks else ""
    what = "Perplexity of a reader" if release.guarantee.release == "text" else "Perplexity"
    yield f"{what} {_number(measure.value)}{part}{beside}."


def _controls(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> dict[str, float]:
    """Return the perplexity of each control of a defense, by what it does otherwise.

    Of several alike, such as those of other ε, the one with the fewest differences.
    """
    found: dict[str, tuple[int, float]] = {}
    for other in releases:
        utility = other.utility.get("perplexity")
        if other.role != f"control of {release.defense}" or utility is None:
            continue
        mine = release.parameters
        differing = {k: v for k, v in other.parameters.items() if mine.get(k) != v}
        word = ", ".join(f"{k}={v}" for k, v in differing.items() if k not in ("epsilon", "sigma"))
        found[word] = min(found.get(word, (99, 0.0)), (len(differing), utility.value))
    return {word: value for word, (_, value) in found.items()}


def _number(value: float) -> str:
    """Format three significant digits; thousands in full."""
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.3g}"
