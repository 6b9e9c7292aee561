"""`audit plan`: describe a run, and freeze its plan before anything is run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from audit.cli.run import chosen, run
from audit.cli.say import say
from audit.core.errors import UsageError

_NOT_OF_A_PLAN = ("dry_run", "formats", "log", "workers", "reveal", "author")


def plan(
    plan_file: Path | None,
    freeze: Path | None,
    sign: Path | None,
    rules: Path | None,
    no_references: bool,
    template: tuple[str, ...],
    **flags: Any,
) -> None:
    """Describe what `audit run` with these options would do; --freeze FILE states it beforehand.

    FILE is an in-toto statement of the plan, its releases and its tests. `audit verify DIR --frozen
    FILE` checks that the run followed it.
    """
    from audit import api

    if freeze is None and (sign or rules):
        raise UsageError("--sign and --rules need --freeze FILE")
    settings = chosen(flags, (), no_references, template)
    planned = api.planned(plan_file or os.environ.get("AUDIT_PLAN"), **settings)
    if freeze is None or planned.freeze is None:
        text = planned.describe()
    else:
        text = planned.freeze(freeze, sign, rules)
    say(*text.split("\n"))


def _file(name: str, help: str) -> click.Option:
    return click.Option([f"--{name}"], type=click.Path(path_type=Path), metavar="FILE", help=help)


command = click.Command(
    "plan",
    callback=plan,
    help=plan.__doc__,
    params=[
        *(option for option in run.params if option.name not in _NOT_OF_A_PLAN),
        _file("freeze", "Write the plan as a statement, before the run."),
        _file("sign", "SSH key that signs it, by ssh-keygen; the signature is FILE.sig."),
        _file("rules", "The gate's rules, whose digest is stated; default: the default rules."),
    ],
)
