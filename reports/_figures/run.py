"""All figures of a run."""

from __future__ import annotations

from collections.abc import Sequence

from audit.results.schema import ReleaseResult
from reports._figures import budget, epsilon, exposure, leaks, perplexity, roc
from reports._figures.figure import Figure

_KINDS = (leaks, epsilon, exposure, roc, perplexity, budget)


def figures(releases: Sequence[ReleaseResult], names: Sequence[str]) -> list[Figure]:
    """Draws every figure that the releases have data for."""
    return [figure for kind in _KINDS for figure in kind.figures(releases, names)]
