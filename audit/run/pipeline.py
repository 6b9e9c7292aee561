"""Runs one plan: plant, train, release, attack, judge, report. Data flows one way."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import audit
from audit.core.progress import Remark, StepProgress, attacking
from audit.core.writing import write_atomically
from audit.findings.controls import Named, leaks_beside
from audit.findings.headline import headline
from audit.measure import earlier_look, evidence_file, exposed, samples
from audit.measure.ahead import attack_ahead
from audit.measure.bench import Bench
from audit.measure.publish import publish
from audit.measure.release import Measured, measure_release
from audit.measure.releases import releases
from audit.plan.execution import Execution
from audit.plan.plan import Plan
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results import sums
from audit.results.folder import RunFolder
from audit.results.schema import CorpusResult, ReleaseResult, Results, to_json
from audit.run import export, reports
from audit.run.cut_records import cut_records
from audit.run.estimate import announced, check_fits, estimate
from audit.run.limitations import not_tested, warnings
from audit.run.steps import Steps
from audit.silence.shown import examined
from audit.train.task import check_sharded
from audit.train.train import train_on, workers_for
from reports import Report


def run(plan: Plan, execution: Execution, folder: RunFolder, report: StepProgress) -> Results:
    """Run or resume a plan in its folder and write results.json and the reports."""
    began = time.monotonic()
    current = prepare(plan, folder.stages)
    earlier_look.check(current)
    if execution.sharded:
        check_sharded(current.trainings)
    with folder.held(plan.document), folder.marked(plan.document):
        notes = folder.admit()
        expected = estimate(current, execution.workers, execution.processes)
        before, stands = _resumed(current, len(expected.attacks) if expected else 0)
        check_fits(expected, execution.workers)
        workers = execution.workers or (expected.processes if expected else 0)
        for line in [*notes, *stands, *announced(current, expected)]:
            report(Remark(line), 0.0)
        if expected is not None:
            report = Steps(report, expected.steps, expected.attackers, before)
        several = (execution.processes, execution.sharded)
        with workers_for(current.trainings, workers, *several) as place:
            train_on(place, current.trainings, report)
            bench = Bench(current, folder, execution.reveal)
            bench = publish(bench, place, report)
            export.note(bench.run, folder)
            ahead = attack_ahead(bench, place, report)
        results = _audit(bench, execution.author, report, began, ahead)
        if execution.reveal:
            samples.reveal(folder.path, current.planted)
        write(results, execution.formats, folder.path, report)
    return results


def _resumed(run: Run, attacks: int) -> tuple[int, list[str]]:
    """Count the trainings that are done already; state of how many steps, of which days and where.

    attacks: the steps that are no trainings. Nothing is stated for a new run.
    """
    every = {task.path for task in run.wanted}
    paths = {path for path in every if path.exists()}
    if not paths:
        return 0, []
    days = sorted({date.fromtimestamp(path.stat().st_mtime).isoformat() for path in paths})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    place, steps = next(iter(paths)).parent, len(every) + attacks
    return len(paths), [f"{len(paths)} of {steps} steps done before: trained on {when}, in {place}"]


def write(results: Results, formats: Sequence[str], folder: Path, report: StepProgress) -> None:
    """Write results.json with the digests of what it follows from, and the reports beside it."""
    write_atomically(folder / "results.json", to_json(results))
    sums.write(folder)
    reports.write(Report(results, folder), formats, report)


def _audit(
    bench: Bench, author: str, report: StepProgress, began: float, ahead: Mapping[str, float]
) -> Results:
    """Measure every release and judge it. ahead: seconds of those that are attacked already."""
    current, plan = bench.run, bench.run.plan
    measured = []
    for one in releases(current, report):
        if one.label not in ahead:
            report(attacking(one.label), 0.0)
        seen = examined(bench, one, measure_release(bench, one))
        measured.append(replace(seen, seconds=seen.seconds + ahead.get(one.label, 0.0)))
        if one.label not in ahead:
            report(attacking(one.label), 1.0)
    _keep_evidence(current, measured, bench.folder)
    if bench.reveal:
        exposed.write(bench.folder.path, current, measured)
    audited = judged(measured, bool(plan.references))
    return Results(
        status="complete",
        headline=headline(audited),
        not_tested=not_tested(plan),
        warnings=[*warnings(current, audited), *cut_records(current)],
        reproduce=plan.command,
        plan={**plan.document, "hash": plan.hash},
        environment=_environment(plan, author, bench.folder.began, time.monotonic() - began),
        corpus=_corpus(current),
        releases=audited,
    )


def _keep_evidence(current: Run, measured: Sequence[Measured], folder: RunFolder) -> None:
    """Write evidence.json, from which `audit verify` derives the findings again."""
    plan, planted = current.plan, current.planted
    releases = tuple(one.evidence for one in measured)
    evidence = evidence_file.EvidenceFile(
        plan.hash, plan.source.unit, current.family, planted.secrets, planted.coins, releases
    )
    evidence_file.write(folder.path, evidence)


def _corpus(current: Run) -> CorpusResult:
    """Describe the corpus, by its manifest where the corpus is not here."""
    corpus, present = current.plan.corpus, current.planted.coins.present
    return CorpusResult(
        name=corpus.name,
        **current.plan.source.size(corpus),
        near_duplicates=current.near_duplicates,
        private_token_share=current.private_share if corpus.records else None,
        planted_token_share=current.planted_share,
        planted_users=len(present),
        invented_users=current.plan.source.invented,
        trained_users=len(current.planted.corpus.users("private")) or sum(present.values()),
        twins=sum(not here for here in present.values()),
    )


def judged(measured: Sequence[Measured], references: bool) -> list[ReleaseResult]:
    """Judge every release beside its positive controls, if the run has references."""
    named = [Named(one.name, one.role, one.reference) for one in (m.audited for m in measured)]
    results = []
    for place, one in enumerate(measured):
        leaks = leaks_beside(place, named, lambda i: measured[i].leaks) if references else None
        results.append(one.result(leaks))
    return results


def _environment(plan: Plan, author: str, first: str, seconds: float) -> dict[str, Any]:
    """Describe where, when and by whom it was run; two runs of a plan may differ here.

    first: the day on which it began.
    """
    return {
        "audit": audit.__version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": plan.device,
        "began": first,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 1),
        **({"author": author} if author else {}),
    }
