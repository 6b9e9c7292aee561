"""`audit export`: a release of a run, ready to be used, with its guarantee beside it."""

from __future__ import annotations

from pathlib import Path

import click

from audit.cli.commands import FOLDER
from audit.cli.say import say


@click.command()
@FOLDER
@click.argument("release", metavar="RELEASE")
@click.argument("out", type=click.Path(path_type=Path), metavar="OUT")
def export(folder: Path, release: str, out: Path) -> None:
    """Export RELEASE (such as dp_sgd, or submix:k=4) of a run into the new folder OUT.

    A model becomes a model folder; a service becomes what `audit.api.serve` opens. guarantee.json
    beside it states the promise, and what the run found.
    """
    from audit import api

    say(api.export(folder, release, out))
