"""All figures of a run. Three stand on page one: what leaked, what it cost, what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit.results.schema import ReleaseResult, Results
from reports._content.figure import Figure
from reports._content.page import labels
from reports._content.sweep import settings
from reports._content.worst import MOST_ROWS, worst
from reports._figures import budget, epsilon, exposure, leaks, perplexity, roc, sweep

_FIRST = {
    "What leaked, by {}": leaks,
    "What it cost, in perplexity": perplexity,
    "What was promised, as ε": epsilon,
}
_LATER = (exposure, roc, budget)


def of(results: Results) -> list[Figure]:
    """Draw the figures of a run, or those of a sweep."""
    if results.sweep is None:
        return figures(results.releases, labels(results.releases))
    views = settings(results, results.sweep)
    return [*of_settings(views, labels(views)), *sweep.figures(views)]


def of_settings(views: Sequence[ReleaseResult], names: Sequence[str]) -> list[Figure]:
    """Draw page one of a sweep: as many settings as fit, leaks first, and both references."""
    beside = [i for i, s in enumerate(views) if s.reference and s.defense in ("none", "public")]
    audited = [i for i, s in enumerate(views) if not s.reference]
    chosen = worst([views[i] for i in audited], MOST_ROWS - len(beside))
    places = [*(audited[i] for i in chosen), *beside]
    left = len(audited) - len(chosen)
    note = f" {len(chosen)} of {len(audited)} settings, leaks first." if left else ""
    drawn = figures([views[i] for i in places], [names[i] for i in places], later=())
    return [replace(f, caption=f"{f.caption}{note}") for f in drawn if f.first]


def figures(
    releases: Sequence[ReleaseResult], names: Sequence[str], later: Sequence[Any] = _LATER
) -> list[Figure]:
    """Draw every figure that the releases have data for, those of page one first.

    Their rows are the same releases in the same order: the audited ones, then the references.
    later: the kinds of figures that stand behind page one.
    """
    order = sorted(range(len(releases)), key=lambda i: releases[i].reference)
    rows = [releases[i] for i in order]
    spoken = [_spoken(releases[i], names[i]) for i in order]
    first, rest = [], []
    for title, kind in _FIRST.items():
        for i, figure in enumerate(kind.figures(rows, spoken)):
            on_page_one = replace(figure, title=title.format(figure.title), first=True)
            first.append(on_page_one) if i == 0 else rest.append(figure)
    return [*first, *rest, *(f for kind in later for f in kind.figures(releases, names))]


def _spoken(release: ReleaseResult, name: str) -> str:
    return f"undefended ({name})" if release.reference and release.defense == "none" else name
