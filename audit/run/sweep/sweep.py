"""Runs a sweep: a grid of settings over seeds, each seed an ordinary run, one results.json.

Seeds lie in `seeds/` of the sweep's folder, each a run folder with its own ledger and results whose
`stages` is a link to the sweep's. What is finished is not done again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import audit
from audit.core import writing
from audit.core.digest import digest_of_json
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.progress import WHOLE, Remark, StepProgress
from audit.core.visible import printed
from audit.corpora import loading as corpora
from audit.corpora.reading import Reading
from audit.findings import stored
from audit.models import loading
from audit.plan import settings
from audit.plan.execution import Execution
from audit.plan.plan import Plan
from audit.plan.plan_file import to_toml
from audit.plan.resolve import DEFAULTS, resolve_on
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results import foreign
from audit.results.folder import RunFolder, run_record
from audit.results.schema import Results
from audit.results.words import count
from audit.run import pipeline as running
from audit.run.dry_run import query_lines
from audit.run.estimate import check_fits, estimate, says
from audit.run.sweep.grid import Grid, grid_of
from audit.run.sweep.summary import few_seeds
from audit.run.sweep.together import together

PLAN_FILE = "plan.toml"
# settings that change no result
_ELSEWHERE = ("output", "format", "workers", "processes", "sharded", "reveal", "author")


@dataclass(frozen=True)
class Sweep:
    """A grid, and its plans: one a seed, each with every setting and the references.

    plan_file: text of a plan file that gives the same sweep again.
    """

    grid: Grid
    plans: tuple[Plan, ...]
    plan_file: str

    @cached_property
    def document(self) -> dict[str, Any]:
        """The plans as results.json shows them: their common part, the seeds and the grid."""
        shared = {k: v for k, v in self.plans[0].document.items() if k != "seed"}
        return {**shared, "seeds": list(self.grid.seeds), "sweep": self.grid.document}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the document: the sweep's identity."""
        return digest_of_json(self.document)


def read(
    path: Path, flags: Mapping[str, Any], trust_config: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read (settings, `[sweep]` table) of a plan file, by the usual precedence. UsageError."""
    given = settings.gather(flags, path, "sweep", trust_config)
    return given, given.pop("sweep", {})


def resolve(given: Mapping[str, Any], table: Mapping[str, Any]) -> Sweep:
    """Resolve settings and multiply out the grid of a `[sweep]` table. Raises UsageError."""
    given = {**DEFAULTS, "attack": (), **given}
    model = loading.describe(given["model"], EMBEDDED_FOLDER)
    corpus = corpora.load(given["corpus"], EMBEDDED_FOLDER, Reading.of(given))
    grid = grid_of(table, given)
    plain = {k: v for k, v in given.items() if k != "epsilon"}
    common = {**plain, "defense": grid.settings()}
    plans = [resolve_on({**common, "seed": seed}, corpus, model) for seed in grid.seeds]
    own = {k: v for k, v in given.items() if k not in _ELSEWHERE}
    return Sweep(grid, tuple(plans), to_toml({**own, "sweep": table}))


def run(sweep: Sweep, execution: Execution, folder: RunFolder, report: StepProgress) -> Results:
    """Run or resume a sweep in its folder and write results.json and the reports."""
    began = time.monotonic()
    for plan in sweep.plans:  # bad input is refused before anything is trained
        prepare(plan, folder.stages)
    with folder.alone(), folder.marked(sweep.document):
        with folder.held(sweep.document):
            for line in folder.admit():
                report(Remark(line), 0.0)
            homes = [seed_folder(plan, folder) for plan in sweep.plans]
        before = [finished_results(home) for home in homes]
        if done := sum(one is not None for one in before):
            report(Remark(f"{done} of {count(len(homes), 'seed')} done before"), 0.0)
        runs = [
            stands or _seed(plan, execution, home, _of_seed(report, plan.seed, i, len(homes)))
            for i, (plan, home, stands) in enumerate(zip(sweep.plans, homes, before, strict=True))
        ]
        document = {**sweep.document, "hash": sweep.hash}
        seeds = [(one.seed, one.hash) for one in sweep.plans]
        results = together(document, PLAN_FILE, seeds, runs, time.monotonic() - began)
        writing.write_atomically(folder.path / PLAN_FILE, sweep.plan_file)
        running.write(results, execution.formats, folder.path, report)
    return results


def seed_folder(plan: Plan, sweep: RunFolder) -> RunFolder:
    """Make the run folder of one seed: its own ledger and results; the sweep's stages."""
    folder = RunFolder(sweep.path / "seeds" / str(plan.seed), plan.hash)
    writing.make_folder(folder.path)
    if not (folder.stages.is_symlink() or folder.stages.exists()):
        folder.stages.symlink_to(foreign.OF_A_SWEEP, target_is_directory=True)
    return folder


def _seed(plan: Plan, execution: Execution, folder: RunFolder, report: StepProgress) -> Results:
    running.run(plan, dataclasses.replace(execution, formats=("json",)), folder, report)
    folder.seal()
    return stored.load(folder.path / "results.json")  # as a resumed sweep meets it: rounded


def _of_seed(report: StepProgress, seed: int, place: int, seeds: int) -> StepProgress:
    """Name the seed in every label; of the whole run each seed is an equal share."""

    def of_seed(label: str, share: float) -> None:
        if label == WHOLE:
            report(WHOLE, (place + share) / seeds)
        else:
            report(type(label)(f"seed {seed}: {label}"), share)

    return of_seed


def finished_results(folder: RunFolder) -> Results | None:
    """Load the results of a seed that these versions finished for this user; else None."""
    manifest = run_record(folder.path) or {}
    if (manifest.get("status"), manifest.get("hash")) != ("complete", folder.plan_hash):
        return None
    if not folder.sealed:
        return None
    with contextlib.suppress(UsageError):
        results = stored.load(folder.path / "results.json")
        if all(results.environment.get(name) == v for name, v in _versions().items()):
            return results
    return None


def _versions() -> dict[str, str]:
    return {"audit": audit.__version__, **{n: version(n) for n in ("torch", "transformers")}}


def describe(sweep: Sweep, folder: RunFolder, workers: int | str = 0, processes: int = 1) -> str:
    """Describe the grid and the trainings it needs: wanted, shared, finished.

    workers: as `--workers`. processes: as `--processes` of a run.
    """
    prepared = [prepare(plan, folder.stages) for plan in sweep.plans]
    plan = sweep.plans[0]
    lines = [
        f"sweep {sweep.hash[:12]}: {len(plan.defenses)} releases of each of "
        f"{len(sweep.plans)} seeds ({', '.join(map(str, sweep.grid.seeds))})",
        f"folder: {folder.path}",
        f"corpus {plan.corpus.name}, model {plan.model.name} on {plan.device}",
        _users(prepared),
        f"attacks: {', '.join(chosen.label for chosen in plan.attacks)}",
        "grid:",
    ]
    for chosen in plan.defenses:
        tokens = sum(p.train_tokens[chosen] for p in prepared)
        role = " (reference)" if chosen.reference else ""
        lines.append(f"  {chosen.label}{role}: {tokens:,} tokens to train on, over all seeds")
    lines += [*_trainings(prepared), *_expected(prepared, workers, processes)]
    lines += [*query_lines(prepared[0]), *few_seeds(len(sweep.plans))]
    return "\n".join(map(printed, lines))


def _users(prepared: Sequence[Run]) -> str:
    """Count the users that a coin decides about in each seed, and those that are trained on."""
    coins = [list(p.planted.coins.present.values()) for p in prepared]
    trained = " to ".join(dict.fromkeys(str(f(map(sum, coins))) for f in (min, max)))
    return f"users: {len(coins[0])} decided by coin in each seed, {trained} of them trained on"


def _expected(prepared: list[Run], workers: int | str, processes: int) -> list[str]:
    """Describe how long the sweep takes, seed after seed, and what its stages need."""
    each = [one for p in prepared if (one := estimate(p, workers, processes)) is not None]
    if not each:
        return []
    for one in each:
        check_fits(one, workers)
    seconds, disk = sum(one.seconds for one in each), sum(one.disk for one in each)
    memory = max(one.memory for one in each)
    return [f"expected: {says(seconds, each[0].processes, memory, disk)}"]


def _trainings(prepared: list[Run]) -> list[str]:
    wanted = [task.path for p in prepared for task in p.wanted]
    distinct = set(wanted)
    there, repeated = sum(path.exists() for path in distinct), len(wanted) - len(distinct)
    return [
        f"trainings: {len(distinct)} in all; {repeated} more are wanted and shared; "
        f"{there} are finished already"
    ]
