"""All figures of a run. Three stand on page one: what leaked, what it cost, what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.results.schema import ReleaseResult
from reports._figures import budget, epsilon, exposure, leaks, perplexity, roc
from reports._figures.figure import Figure

_FIRST = {
    "What leaked, by {}": leaks,
    "What it cost, in perplexity": perplexity,
    "What was promised, as ε": epsilon,
}
_LATER = (exposure, roc, budget)


def figures(releases: Sequence[ReleaseResult], names: Sequence[str]) -> list[Figure]:
    """Draws every figure that the releases have data for, those of page one first.

    Their rows are the same releases in the same order: the audited ones, then the references.
    """
    order = sorted(range(len(releases)), key=lambda i: releases[i].reference)
    rows = [releases[i] for i in order]
    labels = [_spoken(releases[i], names[i]) for i in order]
    first, later = [], []
    for title, kind in _FIRST.items():
        for i, figure in enumerate(kind.figures(rows, labels)):
            on_page_one = replace(figure, title=title.format(figure.title), first=True)
            first.append(on_page_one) if i == 0 else later.append(figure)
    return [*first, *later, *(f for kind in _LATER for f in kind.figures(releases, names))]


def _spoken(release: ReleaseResult, name: str) -> str:
    return f"undefended ({name})" if release.reference and release.defense == "none" else name
