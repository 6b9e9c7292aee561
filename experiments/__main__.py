"""Runs, resumes and judges claims of the papers: `python -m experiments --help`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from audit import api
from audit.cli.progress import Progress
from audit.core.code import code_digest
from audit.core.errors import UsageError
from audit.core.writing import copy_file, write_atomically
from audit.findings import stored
from audit.plan.plan_file import to_toml
from audit.results.schema import Results
from experiments import claim as claims
from experiments import page
from experiments.claim import HERE, SCALES, Claim
from experiments.judge import judge, overall
from experiments.measures import values


@click.command()
@click.argument("names", nargs=-1, metavar="CLAIM…")
@click.option("--scale", type=click.Choice(SCALES), default="small", show_default=True)
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("claims"), show_default=True
)
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder of corpora and models, beyond small."
)
@click.option("--workers", default="0", help="As for audit sweep.")
@click.option("--keep", is_flag=True, help="Store what is found among the project's own results.")
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
    """Test claims of the papers (M1 … P12; none: all) and state which are confirmed.

    Runs are kept under --output and resumed there; claims share what they train.
    """
    try:
        chosen = [claims.read(name) for name in names or (() if write_page else claims.ids())]
        for claim in chosen:
            _one(claim, scale, output, data, workers, keep, dry_run)
        if write_page:
            page.write()
    except (UsageError, OSError) as error:
        click.echo(f"experiments: {error}", err=True)
        raise SystemExit(2) from None


def _one(
    claim: Claim,
    scale: str,
    output: Path,
    data: Path | None,
    workers: str,
    keep: bool,
    dry_run: bool,
) -> None:
    if why := claim.without(scale):
        click.echo(f"{claim.id}: {why}")
        return
    folder = output / scale / claim.id
    here = claims.ids()[claim.id].parent
    plans = {name: _placed(plan, here, data) for name, plan in claim.plans(scale).items()}
    began, results, expected = time.monotonic(), {}, {}
    for name, plan in plans.items():
        planned = api.planned_sweep(
            _written(plan, folder / name),
            output=folder / name / "run",
            workers=workers,
            format=["json", "html"],
        )
        if dry_run:
            described = planned.describe()
            click.echo(f"{claim.id}, {name}:\n{described}")
            expected[name] = _expected(described)
            continue
        results[name] = _ran(planned, output / scale / "models")
    if dry_run and keep:
        page.keep_dry_run(claim.id, scale, expected)
    if not dry_run:
        document = _judged(claim, scale, results, time.monotonic() - began)
        _store(document, folder, keep)


def _expected(described: str) -> str:
    """Find what a run is expected to take in the words of its dry run."""
    lines = (line.partition("expected: ")[2] for line in described.splitlines())
    return next(filter(None, lines), "not known")


def _placed(value: Any, here: Path, data: Path | None) -> Any:
    """Replace HERE by the claim's folder, and DATA by that of corpora and models."""
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
    """Run or resume a sweep. models: the folder of what all claims at this scale have trained.

    Raises UsageError where the folder holds results of other code.
    """
    finished, stages = planned.folder / "results.json", planned.folder / "stages"
    code, made_by = _code(), planned.folder.with_name("code")
    if made_by.exists() and made_by.read_text(encoding="utf-8") != code:
        raise UsageError(f"{planned.folder}: begun by other code; give another --output")
    if finished.exists():
        return stored.load(finished)
    write_atomically(made_by, code)
    _share(models, stages)
    try:
        with Progress() as progress:
            planned.run(progress.report)
    finally:
        _share(stages, models)
    return stored.load(finished)


def _code() -> str:
    """Hashes all code of the product, and names the versions of what it computes with."""
    files = [path for name in ("audit", "attacks", "defenses") for path in _modules(name)]
    versions = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    return " ".join([code_digest(*files), *versions])


def _modules(package: str) -> list[str]:
    paths = sorted((HERE.parent / package).rglob("*.py"))
    return [".".join(path.relative_to(HERE.parent).with_suffix("").parts) for path in paths]


def _share(source: Path, target: Path) -> None:
    """Copy all trained models of one folder to another, with their counts and signatures; sessions
    stay with their own ledger."""
    for kind in ("trained-*.safetensors", "counted-*.json"):
        for folder in ("signatures", "."):
            (target / folder).mkdir(parents=True, exist_ok=True)
            for path in sorted((source / folder).glob(kind)):
                if not (target / folder / path.name).exists():
                    copy_file(path, target / folder / path.name)


def _judged(
    claim: Claim, scale: str, results: Mapping[str, Results], seconds: float
) -> dict[str, Any]:
    judged = judge(claim.statements, results)
    measured = {name for one in judged for name in one.measured}
    rows = claim.table_at(scale).values()
    beside = [row["ours"] for row in rows if row["ours"] not in measured]
    first = next(iter(results.values()))
    seeds = [one.seed for one in first.sweep.seeds] if first.sweep else []
    taken = sum(one.environment.get("seconds", 0.0) for one in results.values())
    return {
        "claim": claim.id,
        "scale": scale,
        "verdict": overall(judged),
        "digest": claim.digest(scale),
        "seeds": seeds,
        "seconds": round(max(seconds, float(taken))),
        "device": first.environment.get("device", "cpu"),
        "models": sorted({one.plan["model"]["sha256"] for one in results.values()}),
        "statements": [one.document for one in judged],
        "shown": {name: values(name, results).values for name in beside},
    }


def _store(document: Mapping[str, Any], folder: Path, keep: bool) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "verdict.json", text)
    claim = claims.read(document["claim"])
    page.write_one(claim, document, folder)
    if keep:
        page.keep(claim.id, document["scale"], text)
    click.echo(f"{document['claim']} at {document['scale']}: {document['verdict']}")
    for one in document["statements"]:
        click.echo(f"  {one['verdict']}: {one['says']} ({page.figures(one)})")


if __name__ == "__main__":
    main()
