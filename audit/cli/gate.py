"""`audit gate` and `audit baseline update`: what a CI build is held to."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import click

from audit.cli.commands import FOLDER, Commands, parts
from audit.cli.say import say


@click.command()
@FOLDER
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.option("--baseline", "baseline_file", type=click.Path(path_type=Path), metavar="FILE.json")
@click.option("--strict", is_flag=True, help="Exit with 4 where the outcome is inconclusive.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=("junit",),
    metavar="junit,sarif",
    show_default=True,
)
def gate(
    folder: Path,
    policy_file: Path | None,
    baseline_file: Path | None,
    strict: bool,
    formats: tuple[str, ...],
) -> None:
    """Check a run against audit.toml and audit-baseline.json; exit with 1 where it fails."""
    from audit.gate import files, stored
    from audit.gate.render import console
    from audit.run import reports
    from reports import Report

    report = Report(files.finished(folder), folder, policy_file, baseline_file, strict)
    written = reports.write(report, parts(formats))
    stored.write(report.outcome, folder)
    shown = [name for name in ("html", "pdf") if (folder / f"report.{name}").is_file()]
    reports.write(Report(report.stored, folder), shown)  # page one has the gate's answer
    files.append_summary(report.outcome, os.environ)
    say(*console.render(report.outcome).split("\n"), *map(str, written))
    raise SystemExit(report.outcome.exit_code)


@click.group(cls=Commands)
def baseline() -> None:
    """Manage the baseline to which the gate compares later runs."""


@baseline.command()
@FOLDER
@click.option("--reason", required=True, metavar="TEXT", help="Why these results are accepted.")
@click.option("--only-tighten", is_flag=True, help="Refuse what would allow more than before.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("audit-baseline.json"),
    metavar="FILE",
    show_default=True,
)
def update(folder: Path, reason: str, only_tighten: bool, output: Path) -> None:
    """Accept a run: write what it measured, to be committed beside the code."""
    from audit.gate import baseline as baselines
    from audit.gate import files

    accepted = baselines.make(files.finished(folder), reason, date.today())
    say(*files.update_baseline(output, accepted, only_tighten))
