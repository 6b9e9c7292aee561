"""model-index.md: the front matter of a model card, with the `model-index` that Hugging Face reads.

One entry a release, each value with its interval in its name. See
https://huggingface.co/docs/hub/model-cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from audit.results import quoting
from audit.results.schema import Cell, FindingResult, Measure, ReleaseResult, Results
from reports import Format, Report
from reports._content import wording
from reports._content.releases import cells_of, labels

FILENAME = "model-index.md"
_WIDEST = 1_000_000  # no text is folded: a line of its own could begin with ---


@dataclass(frozen=True)
class ModelIndex(Format):
    """The front matter of a model card on Hugging Face, an entry a release."""

    def files(self, report: Report) -> dict[str, bytes]:
        written = yaml.safe_dump(
            {"model-index": _index(report.results)},
            sort_keys=False,
            allow_unicode=True,
            width=_WIDEST,
        )
        return {FILENAME: f"---\n{written}---\n".encode()}


def _index(results: Results) -> list[dict[str, Any]]:
    """Build an entry for each release that is not a reference."""
    named = zip(results.releases, labels(results.releases), cells_of(results), strict=True)
    return [
        {"name": label, "results": [_result(results, release, cell)]}
        for release, label, cell in named
        if not release.reference
    ]


def _result(results: Results, release: ReleaseResult, cell: Cell | None) -> dict[str, Any]:
    corpus = results.corpus
    return {
        "task": {"type": "text-generation", "name": "Privacy audit"},
        "dataset": {
            "type": re.sub(r"[^\w.-]+", "-", corpus.name)[:100],
            "name": corpus.name,
            "revision": corpus.sha256,
        },
        "metrics": list(_metrics(results, release, cell)),
    }


def _metrics(
    results: Results, release: ReleaseResult, cell: Cell | None
) -> Iterator[dict[str, Any]]:
    """List the claim and what leaked in words, over all seeds too, then every value."""
    yield _metric("status", "Whether the run is complete", results.status)
    yield _metric("claimed_epsilon", "What is claimed", wording.claim(release.guarantee))
    yield _metric("leaked", "What leaked", quoting.leaked_of(release))
    yield _metric("claim", "What this says about the claim", str(release.claim))
    if cell is not None:
        leaked = quoting.leaked_of(cell)
        yield _metric("leaked_over_seeds", "What leaked, over all seeds of this setting", leaked)
        claim = str(cell.claim)
        yield _metric("claim_over_seeds", "What all seeds say about the claim", claim)
    for name, measure in release.utility.items():
        yield _metric(name, f"{wording.spelled(name)} ({_interval(measure)})", measure.value)
    for finding in release.findings:
        if finding.value is not None:
            metric = wording.metric(finding.attack, finding.metric)
            shown = f"{wording.spelled(finding.attack)}, {metric}: {wording.answer(finding)}"
            name = f"{finding.attack}.{finding.metric}"
            yield _metric(name, f"{shown} ({_interval(finding)})", finding.value)


def _metric(kind: str, name: str, value: str | float) -> dict[str, Any]:
    return {"type": kind, "name": name, "value": value}


def _interval(measured: Measure | FindingResult) -> str:
    ends = () if measured.ci is None else map(wording.setting, measured.ci)
    return wording.about(measured, " to ".join(ends) or "none")
