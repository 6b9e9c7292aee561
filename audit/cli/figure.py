"""`audit figure`: the figure of a paper, from the results of a sweep or a run."""

from __future__ import annotations

from pathlib import Path

import click

from audit.cli.commands import FOLDER, parts
from audit.cli.say import say


@click.command()
@FOLDER
@click.option("--x", default="epsilon", show_default=True, metavar="epsilon|PARAMETER|MEASURE")
@click.option("--y", default="perplexity", show_default=True, metavar="MEASURE|ATTACK.MEASURE")
@click.option(
    "--by",
    default="defense",
    show_default=True,
    metavar="defense|PARAMETER",
    help="What each panel is of; all panels share their axes.",
)
@click.option(
    "--format", "formats", multiple=True, default=("svg",), show_default=True,
    metavar="svg,pdf,png,tex,csv", help="tex is a table for booktabs.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Where to; default: the run folder.",
)  # fmt: skip
def figure(
    folder: Path, x: str, y: str, by: str, formats: tuple[str, ...], output: Path | None
) -> None:
    """Draw one measure over ε, a parameter or another measure, a panel a defense.

    It prints the caption, then the files.
    """
    from audit import api

    caption, written = api.write_figure(folder, x, y, by, parts(formats), output)
    say(*caption, *map(str, written))
