"""`audit check`: is this DP-SGD really DP-SGD?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audit.cli.commands import given
from audit.cli.progress import Progress
from audit.cli.say import say
from audit.core.errors import UsageError

EXIT_CHECK_FAILED = 1


@click.command()
@click.argument("engine", default="own", metavar="[own|opacus|MODULE:ADAPTER]")
@click.option("--noise-multiplier", type=float, metavar="σ", help="Noise over C; default 1.")
@click.option(
    "--max-norm", type=float, metavar="C", help="Clipping norm of the trials, not 1; default 1.5."
)
@click.option(
    "--sampling-probability",
    type=float,
    metavar="q",
    help="Of each unit in each step, 0.001 to 1; default 0.01.",
)
@click.option(
    "--bands",
    type=int,
    metavar="b̂",
    help="Of DP-FTRL's matrix, 1 to 16, with q in each of b̂ groups; default 1, which is DP-SGD.",
)
@click.option("--steps", type=int, metavar="T", help="Of the claim that is tested; default 1000.")
@click.option("--unit", metavar="record|user", help="What is clipped as one; default record.")
@click.option("--seed", type=int, help="Of the examination's randomness; default 0.")
@click.option("--no-texts", is_flag=True, help="Skip the trials with a causal language model.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all of it.",
)
def check(engine: str, json_file: Path | None, no_texts: bool, **flags: Any) -> None:
    """Examine a DP-SGD or DP-FTRL engine white-box; exit with 1 where a check fails."""
    from audit import api
    from audit.check import as_json, table
    from audit.core.writing import write_atomically

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise UsageError(f"--json {json_file}: its folder does not exist; make it first")
    with Progress() as progress:
        examined = api.check(
            engine,
            texts=not no_texts,
            report=lambda run: progress.report(run, 0.0),
            **given(flags),
        )
    if json_file is not None:
        write_atomically(json_file, as_json.text(examined))
    say(*table.text(examined).split("\n"))
    raise SystemExit(0 if examined.passed else EXIT_CHECK_FAILED)
