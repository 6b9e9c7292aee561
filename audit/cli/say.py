"""Prints lines for a terminal or a CI log; all that commands print passes here."""

from __future__ import annotations

import click

from audit.core.visible import printed


def say(*lines: str, err: bool = False) -> None:
    """Print lines to standard output, or to standard error. A line break within one is shown."""
    click.echo("\n".join(map(printed, lines)), err=err)
