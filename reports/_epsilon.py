"""Empirical ε beside claimed ε: what may be concluded from the two, and what may not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from audit.results.schema import EpsilonLower, FindingResult, GuaranteeResult, ReleaseResult
from reports import _words
from reports._figure import Figure, Table, pieces
from reports._pen import MARGIN, WIDTH, Pen, Scale, linear
from reports._summary import anchor, at_least, measurement
from reports._svg import INK

MOST_LINES = 12
ROW = 40.0
NOTE = (
    "A lower bound says how private a release is at most, never how private it is at least: one "
    "below the claim is no proof of safety. Each holds by itself at its confidence, for the "
    "planted user with all copies; verdicts are adjusted for all tests of a release."
)


@dataclass(frozen=True)
class Ground:
    """Bounds of one release from which the same follows."""

    conclusion: str
    tables: list[Table]


@dataclass(frozen=True)
class Comparison:
    """The claim of one release and every bound above 0 that was found for it, if any."""

    name: str
    role: str
    reference: bool
    anchor: str
    claim: str
    count: int
    grounds: list[Ground]


def comparisons(releases: Sequence[ReleaseResult], names: Sequence[str]) -> list[Comparison]:
    """The audited releases, and the references with a bound above 0."""
    return [_comparison(releases[i], names[i], i) for i in _shown(releases)]


def _shown(releases: Sequence[ReleaseResult]) -> list[int]:
    order = sorted(range(len(releases)), key=lambda i: releases[i].reference)
    audited = [release.findings and not release.reference for release in releases]
    return [i for i in order if audited[i] or bounded(releases[i])]


def bounded(release: ReleaseResult) -> list[tuple[FindingResult, EpsilonLower]]:
    """The findings that bound ε from below, with their bounds."""
    pairs = [(finding, finding.epsilon_lower) for finding in release.findings]
    return [(finding, bound) for finding, bound in pairs if bound is not None and bound.value > 0]


def _comparison(release: ReleaseResult, name: str, index: int) -> Comparison:
    guarantee, found = release.guarantee, bounded(release)
    grounds: dict[str, dict[str, list[list[str]]]] = {}
    for finding, bound in found:
        row = [measurement(finding), _words.number(bound.value), _evidence(bound), finding.verdict]
        alike = grounds.setdefault(conclusion(guarantee, finding, bound), {})
        alike.setdefault(f"{name}: lower bounds on ε in nats {_terms(bound)}", []).append(row)
    head = ["Measure", "ε at least", "Evidence", "Verdict"]
    return Comparison(
        name=name,
        role=_words.clip(release.role, 60),
        reference=release.reference,
        anchor=anchor(index),
        claim=_words.claim(guarantee),
        count=len(found),
        grounds=[
            Ground(told, [Table(caption, head, rows) for caption, rows in tables.items()])
            for told, tables in grounds.items()
        ]
        or [Ground("No bound above 0 was found, which is no proof of safety.", [])],
    )


def _terms(bound: EpsilonLower) -> str:
    scope, level = _words.per_unit(bound.unit, bound.relation), _words.share(bound.confidence)
    return (
        f"{scope} at δ = {_words.number(bound.delta)}, each at {level} confidence, "
        f"under {_hypothesis(bound)}"
    )


def _hypothesis(bound: EpsilonLower) -> str:
    return "no hypothesis" if bound.hypothesis == "none" else bound.hypothesis


def conclusion(guarantee: GuaranteeResult, finding: FindingResult, bound: EpsilonLower) -> str:
    """What a bound says about a claim; whether it refutes is the verdict's to say."""
    claimed = guarantee.epsilon
    if finding.verdict == "refuted":
        return "Refuted: the claim does not allow what was measured."
    if finding.stronger_than_release:
        return "Read with more than the release gives: no evidence on the claim, for or against."
    if claimed is None:
        return "What was claimed is unknown: there is nothing to compare with."
    if math.isinf(claimed):
        return "Nothing was claimed: the bound contradicts nothing and stands by itself."
    unlike = _unlike(guarantee, bound)
    if unlike or finding.verdict == "not comparable":
        return f"Not comparable, in either direction. {unlike}".strip()
    if bound.value > claimed:
        return "Above the claim by itself, but not once adjusted for all tests: no refutation."
    return "Below the claim: consistent with it, and no proof of safety."


def _unlike(guarantee: GuaranteeResult, bound: EpsilonLower) -> str:
    """In what a claim and a bound differ so that neither may be ranked by the other."""
    claim = [_words.per_unit(guarantee.unit, guarantee.relation)]
    if guarantee.alpha is not None:
        claim.append(f"a Rényi divergence of order {_words.number(guarantee.alpha)}")
    if guarantee.basis != "worst case":
        claim.append(guarantee.basis)
    if (guarantee.delta or 0) > bound.delta:
        claim.append(f"at δ = {_words.number(guarantee.delta or 0)}")
    scope = _words.per_unit(bound.unit, bound.relation)
    if claim == [scope]:
        return ""
    return f"The claim is {', '.join(claim)}; the bound is {scope}, (ε, δ), for the worst case."


def explained(bound: EpsilonLower | None) -> str:
    """A bound with its δ, confidence, method, hypothesis and evidence."""
    if bound is None:
        return "no bound"
    scope = _words.per_unit(bound.unit, bound.relation)
    least = at_least(bound) if bound.value > 0 else f"nothing above ε = 0 {scope}"
    return (
        f"{least} at δ = {_words.number(bound.delta)}, {_words.share(bound.confidence)} "
        f"confidence, under {_hypothesis(bound)}, by {_evidence(bound)}"
    )


def _evidence(bound: EpsilonLower) -> str:
    if bound.method == "one_run":
        right = f"{_words.count(bound.v)} of {_words.count(bound.r)} guesses right"
        return f"one run: {right} on {_words.count(bound.m)} coins"
    rank, space = ("—" if x is None else _words.number(x) for x in (bound.rank, bound.space))
    secrets = _words.count(bound.n)
    return f"rank: lower median {rank} of {space} candidates, {secrets} secrets"


def figure(releases: Sequence[ReleaseResult], names: Sequence[str]) -> Iterator[Figure]:
    """One row a release: its claim, and every bound that was found."""
    shown = _shown(releases)
    bounds = [bound.value for i in shown for _, bound in bounded(releases[i])]
    if not bounds:
        return
    told = [*bounds, *(releases[i].guarantee.epsilon for i in shown)]
    most = max((x for x in told if x is not None and math.isfinite(x)), default=0.0) or 1.0
    for suffix, piece in pieces(len(shown), MOST_LINES):
        chosen = [(releases[i], names[i]) for i in shown[piece]]
        title = f"Empirical ε beside claimed ε{suffix}"
        table = Table(
            title,
            ["Release", "Claimed", "Lower bounds on ε, nats"],
            [[name, _words.claim(r.guarantee), _listed(r)] for r, name in chosen],
        )
        yield Figure(
            title=title,
            caption="A bound below a claim is no proof of safety. Hollow: another unit, relation "
            "or access than the claim's, or nothing claimed; not to be ranked against it.",
            alternative=f"{title}, in nats. "
            + "; ".join(f"{row[0]}: {row[1]}; bounds {row[2]}" for row in table.rows),
            svg=_draw(chosen, most, f"epsilon-{piece.start}"),
            table=table,
        )


def _listed(release: ReleaseResult) -> str:
    values = sorted((bound.value for _, bound in bounded(release)), reverse=True)
    shown = ", ".join(_words.number(value) for value in values[:6]) or "none above 0"
    return f"{shown} and {len(values) - 6} smaller" if len(values) > 6 else shown


def _comparable(guarantee: GuaranteeResult, finding: FindingResult, bound: EpsilonLower) -> bool:
    if finding.verdict == "refuted":
        return True
    known = guarantee.epsilon is not None and math.isfinite(guarantee.epsilon)
    alike = known and not _unlike(guarantee, bound) and finding.verdict != "not comparable"
    return alike and not finding.stronger_than_release


def _draw(chosen: list[tuple[ReleaseResult, str]], most: float, name: str) -> str:
    top, bottom = 26.0, 26.0 + ROW * len(chosen)
    pen = Pen(bottom + 28)
    page = pen.page()
    scale = linear(0, most)
    _legend(pen, page)
    for index, (release, label) in enumerate(chosen):
        _row(pen, page, scale, release, label, top + ROW * index)
    for tick in scale.ticks:
        side = "left" if tick == 0 else "right" if tick == scale.high else "center"
        pen.quiet(page, _across(scale, tick), bottom + 9, _words.number(tick), ha=side)
    pen.quiet(page, WIDTH / 2, bottom + 24, "ε in nats", ha="center", fontsize=10)
    return pen.svg(name)


def _across(scale: Scale, value: float) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * min(value, scale.high) / scale.high


def _legend(pen: Pen, page: Axes) -> None:
    page.plot([MARGIN + 4] * 2, [5, 15], color=INK["ink"], lw=2.4)
    pen.quiet(page, MARGIN + 10, 13.2, "claimed", fontsize=9.5)
    for x, filled, text in ((74, True, "at least"), (136, False, "at least, not comparable")):
        _bound(page, x, 10, filled)
        pen.quiet(page, x + 9, 13.2, text, fontsize=9.5)


def _row(
    pen: Pen, page: Axes, scale: Scale, release: ReleaseResult, label: str, y: float
) -> None:  # fmt: skip
    guarantee = release.guarantee
    told = _words.epsilon(guarantee.epsilon)
    for tick in scale.ticks:
        page.plot([_across(scale, tick)] * 2, [y + 17, y + 36], color=INK["rule"], lw=0.8)
    if guarantee.epsilon is not None and math.isfinite(guarantee.epsilon):
        told = f"claimed {told} per {_words.clip(guarantee.unit, 20)}"
        x = _across(scale, guarantee.epsilon)
        page.plot([x, x], [y + 17, y + 36], color=INK["ink"], lw=2.4)
    for finding, bound in bounded(release):
        comparable = _comparable(guarantee, finding, bound)
        _bound(page, _across(scale, bound.value), y + 27, comparable)
    weight = "normal" if release.reference else "bold"
    pen.text(page, MARGIN, y + 12, _words.clip(label, 52 - len(told)), fontweight=weight)
    pen.text(page, WIDTH - MARGIN, y + 12, told, ha="right", fontsize=9.5)


def _bound(page: Axes, x: float, y: float, filled: bool) -> None:
    """A triangle that points to where ε may be: at its place or beyond."""
    face = INK["accent" if filled else "paper"]
    page.plot([x], [y], ">", ms=7, mfc=face, mec=INK["accent"], mew=1.4)
