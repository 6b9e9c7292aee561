"""model.cdx.json: a CycloneDX 1.6 bill of materials of the audited releases, as model cards.

Each release is a component with its measures and their intervals. Its base model and the corpus are
components, too. See https://cyclonedx.org/docs/1.6/json/.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from audit import __version__
from audit.results import quoting
from audit.results.schema import Cell, FindingResult, ReleaseResult, Results, to_json
from reports import Format, Report
from reports._content import wording
from reports._content.releases import cells_of, labels

FILENAME = "model.cdx.json"
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CORPUS = "corpus"  # the only reference between components


@dataclass(frozen=True)
class CycloneDX(Format):
    """A bill of materials: each release with its weights, its ancestors and a model card."""

    def files(self, report: Report) -> dict[str, bytes]:
        text = json.dumps(document(report), indent=1, ensure_ascii=True, allow_nan=False)
        return {FILENAME: f"{text}\n".encode("ascii")}


def document(report: Report) -> dict[str, Any]:
    """Build the bill of materials; the same results and weights give the same one."""
    results, weights = report.results, report.weights
    number = uuid.uuid5(uuid.NAMESPACE_URL, to_json(results) + repr(weights))
    releases = results.releases
    named = zip(releases, labels(releases), weights, cells_of(results), strict=True)
    tool = {"type": "application", "name": "audit", "version": __version__}
    models = [_model(results, *one) for one in named if not one[0].reference]
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}},
        "components": [*models, _corpus(results)],
    }


def _model(
    results: Results,
    release: ReleaseResult,
    label: str,
    weights: Mapping[str, str],
    cell: Cell | None,
) -> dict[str, Any]:
    """Describe a release: its weights, what it comes from, and its model card."""
    single = list(weights.values()) if release.guarantee.release == "model" else []
    parts = [
        {"type": "file", "name": name, "hashes": _hashes(digest)}
        for name, digest in weights.items()
    ]
    component = {
        "type": "machine-learning-model",
        "name": label,
        "description": wording.claim(release.guarantee),
        "hashes": [one for digest in single for one in _hashes(digest)],
        "components": [] if single else parts,
        "pedigree": _ancestors(results.plan),
        "modelCard": _card(results, release, cell),
    }
    return {key: value for key, value in component.items() if value}


def _ancestors(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the public model that training starts from."""
    base = plan.get("model")
    if not isinstance(base, dict):
        return {}
    of = "names and contents of the files of the model folder"
    named = {"type": "machine-learning-model", "name": str(base.get("name", "unknown"))}
    return {"ancestors": [{**named, **_hashed(str(base.get("sha256")), of)}]}


def _corpus(results: Results) -> dict[str, Any]:
    corpus = results.corpus
    size = f"{corpus.records} records of {corpus.users} users"
    return {
        "type": "data",
        "bom-ref": _CORPUS,
        "name": corpus.name,
        **_hashed(corpus.sha256, "user, name, split and text of every record, in order"),
        "data": [{"type": "dataset", "name": corpus.name, "description": size}],
    }


def _card(results: Results, release: ReleaseResult, cell: Cell | None) -> dict[str, Any]:
    return {
        "modelParameters": {"task": "text-generation", "datasets": [{"ref": _CORPUS}]},
        "quantitativeAnalysis": {"performanceMetrics": list(_metrics(release))},
        "considerations": {"technicalLimitations": results.not_tested},
        "properties": list(_properties(results, release, cell)),
    }


def _metrics(release: ReleaseResult) -> Iterator[dict[str, Any]]:
    """List what was measured: utility, then findings; `twins` is the slice of their controls."""
    for name, measure in release.utility.items():
        yield _metric(name, measure)
    for finding in release.findings:
        if finding.value is not None:
            yield _metric(_name(finding), finding)
        if finding.control is not None:
            yield {**_metric(_name(finding), finding.control), "slice": "twins"}


def _metric(name: str, measured: Any) -> dict[str, Any]:
    """Describe a value; CycloneDX takes numbers as text. An interval without an end has none."""
    written = {"type": name, "value": wording.setting(float(measured.value))}
    if measured.ci is None:
        return written
    low, high = (wording.setting(float(end)) for end in measured.ci)
    return {**written, "confidenceInterval": {"lowerBound": low, "upperBound": high}}


def _name(finding: FindingResult) -> str:
    return f"{finding.attack}.{finding.metric}"


def _properties(
    results: Results, release: ReleaseResult, cell: Cell | None
) -> Iterator[dict[str, str]]:
    """Describe what leaked and was claimed, and each value: unit, method, confidence."""
    yield _property("plan", results.plan.get("hash", "unknown"))
    yield _property("status", results.status)
    yield _property("seed", release.seed)
    yield _property("defense", release.defense)
    for name, value in release.parameters.items():
        yield _property(f"parameter:{name}", wording.setting(value))
    if lora := results.plan.get("lora"):
        yield _property("lora", wording.setting(lora))
    finished = results.plan.get("finished")
    if isinstance(finished, dict):
        yield _property("audited-model", finished.get("name"))
        yield _property("audited-model-sha256", finished.get("sha256"))
    yield _property("claimed", wording.claim(release.guarantee))
    yield _property("leaked", quoting.leaked_of(release))
    yield _property("claim", release.claim)
    if cell is not None:
        yield _property("leaked-over-seeds", quoting.leaked_of(cell))
        yield _property("claim-over-seeds", cell.claim)
    for name, measure in release.utility.items():
        yield _property(f"measure:{name}", wording.about(measure))
    for finding in release.findings:
        yield _property(f"measure:{_name(finding)}", wording.about(finding))
        if finding.control is not None:
            twins = finding.model_copy(update={"n": finding.control.n})
            yield _property(f"measure:{_name(finding)}:twins", wording.about(twins))
        yield _property(f"leaked:{_name(finding)}", wording.answer(finding))
        yield _property(f"claim:{_name(finding)}", finding.claim)


def _property(name: str, value: object) -> dict[str, str]:
    return {"name": f"audit:{name}", "value": str(value)}


def _hashes(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}] if _SHA256.fullmatch(digest) else []


def _hashed(digest: str, of: str) -> dict[str, Any]:
    """Describe a hash that is not of a single file, and what it is of."""
    hashes = _hashes(digest)
    return {"hashes": hashes, "properties": [_property("hash-of", of)]} if hashes else {}
