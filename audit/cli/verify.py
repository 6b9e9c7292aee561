"""`audit verify`: does results.json follow from what lies beside it?"""

from __future__ import annotations

from pathlib import Path

import click

from audit.cli.commands import FOLDER
from audit.cli.say import say


@click.command()
@FOLDER
def verify(folder: Path) -> None:
    """Derive results.json again from its evidence; exit with 1 where it does not follow."""
    from audit import api

    verification = api.verify(folder)
    say(*str(verification).split("\n"))
    raise SystemExit(verification.exit_code)
