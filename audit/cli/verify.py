"""`audit verify`: does results.json follow from what lies beside it?"""

from __future__ import annotations

from pathlib import Path

import click

from audit.cli.commands import FOLDER


@click.command()
@FOLDER
def verify(folder: Path) -> None:
    """Derive results.json again from its evidence; exit with 1 where it does not follow."""
    from audit import api
    from audit.gate.render.escaping import visible

    verification = api.verify(folder)
    click.echo("\n".join(map(visible, str(verification).splitlines())))
    raise SystemExit(verification.exit_code)
