"""All figures of a run. Three stand on page one: what leaked, what it cost, what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit.results.schema import Results
from reports._content.figure import Figure
from reports._content.releases import MOST_ROWS, NamedRelease, shown, worst
from reports._figures import budget, epsilon, exposure, leaks, perplexity, roc, sweep

_FIRST = {
    "What leaked, by {}": leaks,
    "What it cost, in perplexity": perplexity,
    "What was promised, as ε": epsilon,
}
_LATER = (exposure, roc, budget)


def of(results: Results) -> list[Figure]:
    """Draw the figures of a run, or those of a sweep."""
    releases = shown(results)
    if results.sweep is None:
        return figures(releases)
    return [*of_settings(releases), *sweep.figures([one.release for one in releases])]


def of_settings(settings: Sequence[NamedRelease]) -> list[Figure]:
    """Draw page one of a sweep: as many settings as fit, leaks first, and both references."""
    audited = [one for one in settings if not one.release.reference]
    beside = [
        one
        for one in settings
        if one.release.reference and one.release.defense in ("none", "public")
    ]
    chosen = worst(audited, MOST_ROWS - len(beside))
    cut = len(chosen) < len(audited)
    note = f" {len(chosen)} of {len(audited)} settings, leaks first." if cut else ""
    drawn = figures([*chosen, *beside], later=())
    return [replace(f, caption=f"{f.caption}{note}") for f in drawn if f.first]


def figures(releases: Sequence[NamedRelease], later: Sequence[Any] = _LATER) -> list[Figure]:
    """Draw every figure that the releases have data for, those of page one first.

    Their rows are the same releases in the same order: the audited ones, then the references.
    later: the kinds of figures that stand behind page one.
    """
    rows = [_spoken(one) for one in sorted(releases, key=lambda one: one.release.reference)]
    first, rest = [], []
    for title, kind in _FIRST.items():
        for i, figure in enumerate(kind.figures(rows)):
            on_page_one = replace(figure, title=title.format(figure.title), first=True)
            first.append(on_page_one) if i == 0 else rest.append(figure)
    return [*first, *rest, *(f for kind in later for f in kind.figures(releases))]


def _spoken(one: NamedRelease) -> NamedRelease:
    undefended = one.release.reference and one.release.defense == "none"
    return replace(one, name=f"undefended ({one.name})") if undefended else one
