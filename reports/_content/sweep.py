"""The report of a sweep: each setting over its seeds, in the shape of an ordinary report.

A setting is shown as a release that has the measures of its cell, so page one, the tables and the
details share their code with a run's report. Only the curves are a sweep's own.
"""

from __future__ import annotations

import math
from dataclasses import replace

from audit.gate.stored import Gated
from audit.results import words
from audit.results.schema import Cell, Cost, ReleaseResult, Results, SweepResult
from reports._content import page, wording
from reports._content.detail import Detail
from reports._content.page import Page

NOTE = (
    "Every row is one setting over its seeds. Counts are pooled over the trained models; all else "
    "is a mean over seeds, and its n counts seeds; its 95 % interval is exact for normal values "
    "and covers somewhat less for skewed ones. What leaked, and what it says about the claim, "
    "is answered by one test over all seeds, which combines their p-values (Fisher's method)."
)


def build(results: Results, sweep: SweepResult, gated: Gated | None = None) -> Page:
    """Build the page of a sweep whose results have gone through `page.inert`."""
    shown = results.model_copy(update={"releases": settings(results, sweep)})
    base = page.build(shown, gated)
    seeds = ", ".join(str(s.seed) for s in sweep.seeds)
    tested = {**dict(base.tested), "Users by coin": _coins(sweep)}
    tested.pop("Seed", None)
    note = NOTE if len(sweep.seeds) > 1 else ""
    attacks = dict.fromkeys(f.attack for release in shown.releases for f in release.findings)
    tested["Attacks"] = ", ".join(map(wording.spelled, attacks)) or "none"
    return replace(
        base,
        title=base.title.replace("Privacy audit", "Privacy sweep", 1),
        subtitle=base.subtitle.replace("Privacy audit", "Privacy sweep", 1),
        tested=[*tested.items(), ("Seeds", seeds)],
        summary=replace(base.summary, note=f"{note} {base.summary.note}".strip()),
        details=[_seeded(detail, seeds) for detail in base.details],
    )


def settings(results: Results, sweep: SweepResult) -> list[ReleaseResult]:
    """Turn each cell into a release: the weakest promise of its seeds, all sessions and costs."""
    return [_setting(results, cell) for cell in sweep.cells]


def _setting(results: Results, cell: Cell) -> ReleaseResult:
    releases = [results.releases[i] for i in cell.releases]
    weakest = max(releases, key=_promised)
    several = len(releases) > 1
    sessions = [
        s.model_copy(update={"purpose": f"{s.purpose}, seed {r.seed}"}) if several else s
        for r in releases
        for s in r.sessions
    ]
    cost = Cost(
        train_tokens=sum(r.cost.train_tokens for r in releases),
        queries=sum(r.cost.queries for r in releases),
        seconds=sum(r.cost.seconds for r in releases),
    )
    return weakest.model_copy(
        update={
            "seed": releases[0].seed,
            "utility": cell.utility,
            "findings": cell.findings,
            "leaked": cell.leaked,
            "claim": cell.claim,
            "silence": cell.silence,
            "sessions": sessions,
            "cost": cost,
        }
    )


def _promised(release: ReleaseResult) -> float:
    epsilon = release.guarantee.epsilon
    return math.inf if epsilon is None else epsilon


def _coins(sweep: SweepResult) -> str:
    def span(name: str) -> str:
        counts = sorted({getattr(s, name) for s in sweep.seeds})
        return " to ".join(words.integer(n) for n in dict.fromkeys((counts[0], counts[-1])))

    return (
        f"{span('planted_users')} decided by a fair coin in each seed: "
        f"{span('trained_users')} trained on, {span('twins')} twins"
    )


def _seeded(detail: Detail, seeds: str) -> Detail:
    facts = [("Seeds", seeds) if term == "Seed" else (term, value) for term, value in detail.facts]
    return replace(detail, facts=facts)
