"""The report of a sweep: each setting over its seeds, in the shape of an ordinary report.

A setting is shown as a release whose measures are those of its cell: so page one, the tables and
the details are the same code, and only the curves are a sweep's own.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from audit.results.schema import Cell, Cost, ReleaseResult, Results, SweepResult
from reports import _page, _sweep_figures, _words
from reports._detail import Detail
from reports._figure import Figure
from reports._page import Page

NOTE = (
    "Every row is one setting over its seeds: counts are pooled over the trained models, all else "
    "is a mean over seeds, whose n counts seeds; a verdict is of the seeds' p-values together."
)


def content(results: Results) -> tuple[Page, list[Figure]]:
    """The page and its figures, made once for all formats of the same results."""
    return _content(_page.inert(results).model_dump_json())


@functools.lru_cache(maxsize=1)
def _content(document: str) -> tuple[Page, list[Figure]]:
    clean = Results.model_validate_json(document)
    if clean.sweep is None:
        raise TypeError("these are not the results of a sweep")
    views = settings(clean, clean.sweep)
    shown = clean.model_copy(update={"releases": views})
    return _page_of(shown, clean.sweep), _sweep_figures.draw(views)


def settings(results: Results, sweep: SweepResult) -> list[ReleaseResult]:
    """Each cell as a release: the weakest promise of its seeds, all their sessions and costs."""
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
            "sessions": sessions,
            "cost": cost,
        }
    )


def _promised(release: ReleaseResult) -> float:
    epsilon = release.guarantee.epsilon
    return math.inf if epsilon is None else epsilon


def _page_of(shown: Results, sweep: SweepResult) -> Page:
    page = _page.build(shown)
    seeds = ", ".join(str(s.seed) for s in sweep.seeds)
    tested = {**dict(page.tested), "Users by coin": _coins(sweep)}
    tested.pop("Seed", None)
    note = NOTE if len(sweep.seeds) > 1 else ""
    attacks = dict.fromkeys(f.attack for release in shown.releases for f in release.findings)
    tested["Attacks"] = ", ".join(map(_words.words, attacks)) or "none"
    return dataclasses.replace(
        page,
        title=page.title.replace("Privacy audit", "Privacy sweep", 1),
        subtitle=page.subtitle.replace("Privacy audit", "Privacy sweep", 1),
        tested=[*tested.items(), ("Seeds", seeds)],
        summary=dataclasses.replace(page.summary, note=f"{note} {page.summary.note}".strip()),
        details=[_seeded(detail, seeds) for detail in page.details],
    )


def _coins(sweep: SweepResult) -> str:
    def span(name: str) -> str:
        counts = sorted({getattr(s, name) for s in sweep.seeds})
        return " to ".join(_words.count(n) for n in dict.fromkeys((counts[0], counts[-1])))

    return (
        f"{span('planted_users')} decided by a fair coin in each seed: "
        f"{span('trained_users')} trained on, {span('twins')} twins"
    )


def _seeded(detail: Detail, seeds: str) -> Detail:
    own = [("Seeds", seeds) if term == "Seed" else (term, told) for term, told in detail.facts]
    return dataclasses.replace(detail, facts=own)
