"""One run: plant, train, release, attack, judge, report. Data flows one way."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from audit import plugins, policies, samples
from audit.assembly import releases
from audit.folder import RunFolder, write_atomically
from audit.headline import headline
from audit.measurement import Measured, measure_release
from audit.plan import Execution, Plan, make_plan
from audit.preparation import Prepared, prepare
from audit.results import CorpusResult, ReleaseResult, Results, to_json
from audit.secrets import Secret
from audit.training import train_all
from audit.verdict import judge, leaks

_TABLES = ("planting", "training", "utility_tokens", "threads")

Report = Callable[[str, float], None]


def run(plan: Plan, execution: Execution, folder: RunFolder, report: Report) -> Results:
    """Runs or resumes a plan in its folder and writes results.json and the reports."""
    began = time.monotonic()
    prepared = prepare(plan, folder.stages)
    with folder.held(plan.document):
        try:
            train_all(prepared.trainings, execution.workers, report)
            results = _audit(prepared, folder, execution, report, began)
            write_atomically(folder.path / "results.json", to_json(results))
            if execution.reveal:
                samples.reveal(folder.path, prepared.planted)
            for name in execution.formats:
                if name != "json":
                    report(f"writing {name}", 0.0)
                    plugins.module("reports", name).write(results, folder.path)
        except KeyboardInterrupt:
            folder.mark("interrupted", plan.document)
            raise
        except Exception:
            folder.mark("failed", plan.document)
            raise
        folder.mark("complete", plan.document)
    return results


def _audit(
    prepared: Prepared, folder: RunFolder, execution: Execution, report: Report, began: float
) -> Results:
    plan = prepared.plan
    measured = []
    for one in releases(prepared, report):
        report(f"attacking {one.label}", 0.0)
        measured.append(measure_release(prepared, one, folder, execution.reveal))
    sensitive = _sensitivity(measured)
    audited = [m.result(sensitive, plan.references) for m in measured]
    owners = prepared.planted.coins.present
    return Results(
        status="complete",
        headline=headline(audited),
        not_tested=_not_tested(plan),
        warnings=[*_warnings(plan, audited), *_missed(prepared)],
        reproduce=reproduce(plan),
        plan={**plan.document, "hash": plan.hash},
        environment=_environment(plan, time.monotonic() - began),
        corpus=CorpusResult(
            name=plan.corpus.name,
            sha256=plan.corpus.sha256,
            records=len(plan.corpus.records),
            users=len(plan.corpus.users()),
            near_duplicates=plan.corpus.near_duplicates,
            private_token_share=prepared.private_share,
            planted_users=len(owners),
            trained_users=len(prepared.planted.corpus.users("private")),
            twins=sum(not present for present in owners.values()),
        ),
        releases=audited,
    )


def _sensitivity(measured: Sequence[Measured]) -> dict[tuple[str, str], bool]:
    """By (attack, metric): did the undefended model leak in this run?"""
    for m in measured:
        if m.audited.name == "none":
            own = {(f.attack, f.metric): True for f in m.findings}
            judged = judge(m.findings, m.audited.release.guarantee, own, m.tests)
            return {(f.attack, f.metric): leaks(f) for f in judged}
    return {}


def _not_tested(plan: Plan) -> list[str]:
    asked = {chosen.name for chosen in plan.attacks}
    others = [name for name in plugins.names("attacks") if name not in asked]
    lines = [f"the attacks that were not asked for: {', '.join(others)}"] if others else []
    return [
        *lines,
        "what an attacker learns from when a release stops answering",
        "secrets other than the planted kinds, and attackers stronger than these attacks",
        "differences between seeds: this is one seed, and defenses are not ranked on it",
    ]


def _warnings(plan: Plan, releases: Sequence[ReleaseResult]) -> list[str]:
    lines = [
        "choosing hyperparameters, checkpoints or β on private data is not in ε",
        "several defended models of one corpus compose: their ε add up when released together",
    ]
    if plan.corpus.near_duplicates:
        lines.append(
            f"{plan.corpus.near_duplicates} of {len(plan.corpus.records)} records repeat another "
            "up to case, digits and punctuation: protection per record is weaker for them"
        )
    for release in releases:
        claimed = release.guarantee
        population = claimed.population
        if population and claimed.delta is not None and claimed.delta * population >= 1:
            lines.append(
                f"{release.defense}: δ = {claimed.delta:.3g} is not below 1/N (N = {population}): "
                "such a promise allows to publish somebody whole"
            )
        if release.role == "null control" and any(leaks(f) for f in release.findings):
            lines.append("the null control leaks: the public model has seen planted text")
    if not plan.references:
        lines.append("no references were run: no verdict is conclusive")
    return lines


def _missed(prepared: Prepared) -> list[str]:
    """Which planted values the policy leaves unmarked, where a defense or the plan relies on it."""
    policy = prepared.plan.policy
    relied = any(task.training.private for task in prepared.trainings)
    if not relied and policy == policies.named("digits"):
        return []
    planted = [s for s in prepared.planted.secrets if prepared.planted.coins.planted(s)]
    lines = []
    for kind in dict.fromkeys(s.kind for s in planted if s.kind != "record"):
        values = [s for s in planted if s.kind == kind]
        missed = sum(not _marked(s, policy) for s in values)
        if missed:
            lines.append(
                f"policy {policy.label}: {missed} of {len(values)} planted {kind} values are not "
                "marked in full: to a defense that protects what is marked they are public, and "
                "their leaking is outside its guarantee"
            )
    return lines


def _marked(secret: Secret, policy: policies.Policy) -> bool:
    """Whether every character of the value is private."""
    low, high = len(secret.prefix), len(secret.prefix) + len(secret.value)
    return any(a <= low and high <= b for a, b in policies.merged(policy(secret.text)))


def reproduce(plan: Plan) -> str:
    """The command that runs this plan again, with names in place of paths."""
    words = ["audit run"]
    words += [f"--defense {c.label}" for c in plan.defenses if not c.reference]
    words += [f"--attack {c.label}" for c in plan.attacks]
    if not plan.corpus.embedded:
        words.append(f"--corpus {plan.corpus.name}")
    if not plan.model.embedded:
        words.append(f"--model {plan.model.name}")
    defaults = make_plan({"defense": ["none"], "attack": ["extraction"]}, plan.corpus, plan.model)
    words += [
        f"--{name} {getattr(plan, name)}"
        for name in ("delta", "device")
        if getattr(plan, name) != getattr(defaults, name)
    ]
    if plan.policy != defaults.policy:
        words.append(f"--policy {plan.policy.label}")
    if any(getattr(plan, name) != getattr(defaults, name) for name in _TABLES):
        words.append("--plan PLAN.toml")  # planting, training …: as `plan` in results.json
    words.append(f"--seed {plan.seed}")
    if not plan.references:
        words.append("--no-references")
    return " ".join(words)


def _environment(plan: Plan, seconds: float) -> dict[str, Any]:
    from importlib.metadata import version

    import audit

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
