"""The rows of sweep.csv: a measure each, of every seed and of all seeds together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from audit.results.schema import FindingResult, Measure, ReleaseResult, Results
from reports._content.sweep import settings
from reports._figures.sweep_axes import labels

FILENAME = "sweep.csv"
_CLAIM = ("epsilon", "delta", "alpha", "unit", "relation", "basis")
COLUMNS = (
    "plan_hash", "corpus", "defense", "setting", "parameters", "seed", "seeds", "reference", "role",
    "epsilon",
    *(f"claimed_{name}" for name in _CLAIM), "attack", "metric", "unit", "value", "ci_low",
    "ci_high", "confidence", "k", "n", "method", "epsilon_lower", "leaked", "claim",
    "stronger_than_release",
)  # fmt: skip


def rows(results: Results) -> Iterator[dict[str, Any]]:
    """Make a row for each measure, by the names of COLUMNS; seed is empty for all seeds."""
    if results.sweep is None:
        return
    for release, name in zip(results.releases, labels(results.releases, "epsilon"), strict=True):
        yield from _of(results, release, name, release.seed, 1)
    views = settings(results, results.sweep)
    for view, name, cell in zip(views, labels(views, "epsilon"), results.sweep.cells, strict=True):
        yield from _of(results, view, name, None, len(cell.releases))


def _of(
    results: Results, release: ReleaseResult, setting: str, seed: int | None, seeds: int
) -> Iterator[dict[str, Any]]:
    common = {
        "plan_hash": results.plan.get("hash"),
        "corpus": results.corpus.name,
        "defense": release.defense,
        "setting": setting,
        "parameters": json.dumps(release.parameters, ensure_ascii=False),
        "epsilon": release.parameters.get("epsilon"),
        "seed": seed,
        "seeds": seeds,
        "reference": release.reference,
        "role": release.role,
        **{f"claimed_{name}": getattr(release.guarantee, name) for name in _CLAIM},
    }
    for name, measure in release.utility.items():
        yield {**dict.fromkeys(COLUMNS), **common, "metric": name, **_numbers(measure)}
    for finding in release.findings:
        bound = finding.epsilon_lower
        own = {
            "attack": finding.attack,
            "metric": finding.metric,
            "k": finding.k,
            "epsilon_lower": None if bound is None else bound.value,
            "leaked": str(finding.leaked),
            "claim": str(finding.claim),
            "stronger_than_release": finding.stronger_than_release,
        }
        yield {**dict.fromkeys(COLUMNS), **common, **own, **_numbers(finding)}


def _numbers(measured: Measure | FindingResult) -> dict[str, Any]:
    low, high = measured.ci or (None, None)
    names = ("unit", "value", "confidence", "n", "method")
    return {**{name: getattr(measured, name) for name in names}, "ci_low": low, "ci_high": high}
