"""Runs one plan: plant, train, release, attack, judge, report. Data flows one way."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import audit
from audit.core.files import write_atomically
from audit.core.progress import Remark, StepProgress, attacking
from audit.findings.headline import headline
from audit.findings.rejections import Family
from audit.findings.verdict import sensitive_where
from audit.measure import evidence_file, samples
from audit.measure.ahead import attack_ahead
from audit.measure.publish import publish
from audit.measure.release import Measured, measure_release
from audit.measure.releases import releases
from audit.plan.execution import Execution
from audit.plan.plan import Plan
from audit.results import sums
from audit.results.folder import RunFolder
from audit.results.schema import CorpusResult, Results, to_json
from audit.run import export, reports
from audit.run.estimate import announced, estimate
from audit.run.limitations import not_tested, warnings
from audit.run.steps import Steps
from audit.train.prepare import Prepared, prepare
from audit.train.train import train_on, workers_for
from reports import Report


def run(plan: Plan, execution: Execution, folder: RunFolder, report: StepProgress) -> Results:
    """Runs or resumes a plan in its folder and writes results.json and the reports."""
    began = time.monotonic()
    prepared = prepare(plan, folder.stages)
    with folder.held(plan.document), folder.marked(plan.document):
        expected = estimate(prepared, execution.workers)
        for line in (*announced(prepared, expected), *_earlier(folder)):
            report(Remark(line), 0.0)
        if expected is not None:
            report = Steps(report, expected.steps, expected.attackers)
        with workers_for(prepared.trainings, execution.workers) as place:
            train_on(place, prepared.trainings, report)
            prepared = publish(prepared, folder, place, report)
            export.note(prepared, folder)
            ahead = attack_ahead(prepared, folder, execution.reveal, place, report)
        results = _audit(prepared, folder, execution, report, began, ahead)
        if execution.reveal:
            samples.reveal(folder.path, prepared.planted)
        write(results, execution.formats, folder.path, report)
    return results


def _earlier(folder: RunFolder) -> list[str]:
    """Says that a folder holds models under the keys of an earlier version, which no run reads."""
    models = len(list(folder.stages.glob("model-*.safetensors")))
    return [
        f"note: {folder.stages} holds {models} models of an earlier version of audit, which are "
        f"not used; `audit clean {folder.path}` removes them"
    ] * bool(models)


def write(results: Results, formats: Sequence[str], folder: Path, report: StepProgress) -> None:
    """Writes results.json with the digests of what it follows from, and the reports beside it."""
    write_atomically(folder / "results.json", to_json(results))
    sums.write(folder)
    reports.write(Report(results, folder), formats, report)


def _audit(
    prepared: Prepared,
    folder: RunFolder,
    execution: Execution,
    report: StepProgress,
    began: float,
    ahead: Mapping[str, float],
) -> Results:
    """Measures every release and judges it. ahead: seconds of those that are attacked already."""
    plan = prepared.plan
    measured = []
    for one in releases(prepared, report):
        if one.label not in ahead:
            report(attacking(one.label), 0.0)
        seen = measure_release(prepared, one, folder, execution.reveal)
        measured.append(replace(seen, seconds=seen.seconds + ahead.get(one.label, 0.0)))
        if one.label not in ahead:
            report(attacking(one.label), 1.0)
    _keep_evidence(prepared, measured, folder)
    sensitive = _sensitivity(measured)
    audited = [m.result(sensitive if plan.references else None) for m in measured]
    return Results(
        status="complete",
        headline=headline(audited),
        not_tested=not_tested(plan),
        warnings=warnings(prepared, audited),
        reproduce=plan.command,
        plan={**plan.document, "hash": plan.hash},
        environment=_environment(plan, time.monotonic() - began),
        corpus=_corpus(prepared),
        releases=audited,
    )


def _keep_evidence(prepared: Prepared, measured: Sequence[Measured], folder: RunFolder) -> None:
    """Writes evidence.json, from which `audit verify` derives the findings again."""
    plan, planted = prepared.plan, prepared.planted
    family = Family(prepared.tests, prepared.claim_tests)
    releases = tuple(one.evidence for one in measured)
    evidence = evidence_file.EvidenceFile(
        plan.hash, plan.source.unit, family, planted.secrets, planted.coins, releases
    )
    evidence_file.write(folder.path, evidence)


def _corpus(prepared: Prepared) -> CorpusResult:
    """Describes the corpus, by its manifest where the corpus is not here."""
    corpus, present = prepared.plan.corpus, prepared.planted.coins.present
    return CorpusResult(
        name=corpus.name,
        **prepared.plan.source.size(corpus),
        near_duplicates=prepared.near_duplicates,
        private_token_share=prepared.private_share if corpus.records else None,
        planted_users=len(present),
        trained_users=len(prepared.planted.corpus.users("private")) or sum(present.values()),
        twins=sum(not here for here in present.values()),
    )


def _sensitivity(measured: Sequence[Measured]) -> dict[tuple[str, str], bool] | None:
    """Tells by (attack, metric) whether the undefended model leaked; None where it was not run."""
    for m in sorted(measured, key=lambda m: not m.audited.reference):
        if m.audited.name == "none":
            return sensitive_where(m.unjudged, m.audited.release.guarantee, m.family)
    return None


def _environment(plan: Plan, seconds: float) -> dict[str, Any]:
    return {
        "audit": audit.__version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": plan.device,
        "date": date.today().isoformat(),
        "seconds": round(seconds, 1),
    }
