"""`audit sweep`: a grid of audits over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audit.cli.commands import AUTHOR, FORMATS, LOG, TRUST, TRUST_STAGES, carry_out, given
from audit.core.errors import UsageError
from audit.core.machine import launched


@click.command()
@click.argument("plan_file", type=click.Path(path_type=Path), metavar="PLAN.toml")
@click.option("--output", metavar="DIR", help="Run folder; default: one under audits/.")
@FORMATS
@LOG
@click.option("--workers", metavar="N|ray|ray://HOST:PORT", help="Who trains.")
@click.option("--threads", type=int, help="CPU threads of each process; default by model size.")
@AUTHOR
@TRUST
@TRUST_STAGES
@click.option("--dry-run", is_flag=True, help="Print the grid and the trainings it needs.")
def sweep(
    plan_file: Path, formats: tuple[str, ...], log: str | None, dry_run: bool, **flags: Any
) -> None:
    """Run a grid of defenses, ε, parameters and seeds; the same plan again resumes."""
    if launched() is not None:
        raise UsageError("audit sweep: runs in one process; torchrun divides one `audit run`")
    from audit import api

    carry_out(api.planned_sweep(plan_file, **given(flags, formats)), dry_run, log)
