"""Runs, resumes and judges claims of the papers: `python -m experiments --help`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from audit import api
from audit.cli.progress import Progress
from audit.core.errors import UsageError
from audit.core.files import write_atomically
from audit.findings import stored
from audit.plan.plan_file import to_toml
from audit.results.schema import Results
from experiments import claim as claims
from experiments import page
from experiments.claim import SCALES, Claim
from experiments.judge import judge, overall


@click.command()
@click.argument("names", nargs=-1, metavar="CLAIM…")
@click.option("--scale", type=click.Choice(SCALES), default="small", show_default=True)
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("claims"), show_default=True
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of corpora, for medium.")
@click.option("--workers", default="0", help="As for audit sweep.")
@click.option("--keep", is_flag=True, help="Store the verdicts among the project's own results.")
@click.option("--dry-run", is_flag=True, help="Say what would be run.")
@click.option(
    "--page", "write_page", is_flag=True, help="Write docs/claims.md from what is stored."
)
def main(
    names: tuple[str, ...],
    scale: str,
    output: Path,
    data: Path | None,
    workers: str,
    keep: bool,
    dry_run: bool,
    write_page: bool,
) -> None:
    """Tests claims of the papers (M1 … P12; none: all) and says which are confirmed.

    Runs are kept under --output and resumed there; claims share what they train.
    """
    try:
        for name in names or (() if write_page else claims.ids()):
            _one(claims.read(name), scale, output, data, workers, keep, dry_run)
    except UsageError as error:
        raise SystemExit(_refused(error)) from None
    if write_page:
        page.write()


def _refused(error: UsageError) -> int:
    click.echo(f"experiments: {error}", err=True)
    return 2


def _one(
    claim: Claim,
    scale: str,
    output: Path,
    data: Path | None,
    workers: str,
    keep: bool,
    dry_run: bool,
) -> None:
    if scale in claim.unreachable:
        click.echo(f"{claim.id}: out of reach at {scale}: {claim.unreachable[scale]}")
        return
    folder = output / scale / claim.id
    here = claims.ids()[claim.id].parent
    plans = {name: _placed(plan, here, data) for name, plan in claim.plans(scale).items()}
    began, results = time.monotonic(), {}
    for name, plan in plans.items():
        planned = api.planned_sweep(
            _written(plan, folder / name),
            output=folder / name / "run",
            workers=workers,
            format=["json", "html"],
        )
        if dry_run:
            click.echo(f"{claim.id}, {name}:\n{planned.describe()}")
            continue
        results[name] = _ran(planned, output / scale / "models")
    if not dry_run:
        document = _judged(claim, scale, results, time.monotonic() - began)
        _store(document, folder, keep)


def _placed(value: Any, here: Path, data: Path | None) -> Any:
    """Puts the claim's folder in the place of HERE, and that of corpora and models for DATA."""
    if isinstance(value, Mapping):
        return {key: _placed(one, here, data) for key, one in value.items()}
    if isinstance(value, list):
        return [_placed(one, here, data) for one in value]
    if not isinstance(value, str):
        return value
    if "DATA/" in value and data is None:
        raise UsageError(f"{value}: give the folder of corpora with --data DIR")
    return value.replace("HERE/", f"{here}/").replace("DATA/", f"{data}/")


def _written(plan: Mapping[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.toml"
    write_atomically(path, to_toml(plan))
    return path


def _ran(planned: api.Planned, models: Path) -> Results:
    """Runs or resumes a sweep. models: the folder of what all claims at this scale have trained."""
    finished, stages = planned.folder / "results.json", planned.folder / "stages"
    if finished.exists():
        return stored.load(finished)
    _link(models, stages)
    try:
        with Progress() as progress:
            planned.run(progress.report)
    finally:
        _link(stages, models)
    return stored.load(finished)


def _link(source: Path, target: Path) -> None:
    """Gives a folder all trained models of another; sessions stay with their own ledger."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.glob("trained-*.safetensors"):
        if not (target / path.name).exists():
            os.link(path, target / path.name)


def _judged(
    claim: Claim, scale: str, results: Mapping[str, Results], seconds: float
) -> dict[str, Any]:
    judged = judge(claim.statements, results)
    first = next(iter(results.values()))
    seeds = [one.seed for one in first.sweep.seeds] if first.sweep else []
    taken = sum(one.environment.get("seconds", 0.0) for one in results.values())
    return {
        "claim": claim.id,
        "scale": scale,
        "verdict": overall(judged),
        "seeds": seeds,
        "seconds": round(max(seconds, float(taken))),
        "statements": [one.document for one in judged],
    }


def _store(document: Mapping[str, Any], folder: Path, keep: bool) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "verdict.json", text)
    claim = claims.read(document["claim"])
    page.write_one(claim, document, folder)
    if keep:
        write_atomically(page.stored_path(document["claim"], document["scale"]), text)
    click.echo(f"{document['claim']} at {document['scale']}: {document['verdict']}")
    for one in document["statements"]:
        click.echo(f"  {one['verdict']}: {one['says']} ({page.figures(one)})")


if __name__ == "__main__":
    main()
