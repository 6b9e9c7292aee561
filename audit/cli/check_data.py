"""`audit check-data`: can two sets of texts be told apart without a model?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audit.cli.commands import given, reading
from audit.cli.say import say


@click.command()
@click.argument("inside", metavar="IN|FILE")
@click.argument("outside", metavar="[OUT]", required=False)
@click.option(
    "--secrets",
    type=click.Path(path_type=Path),
    metavar="MANIFEST",
    help="Compare the people whose coin was heads, as they stand in the training file FILE, with "
    "those whose coin was tails.",
)
@click.option(
    "--kind",
    metavar="own|code|…",
    help="Of these people: own (the default where real users have coins), or a kind of secret.",
)
@reading
@click.option("--permutations", type=int, help="Of users between the sides; default 999.")
@click.option("--seed", type=int, help="Of the permutations; default 0.")
def check_data(inside: str, outside: str | None, **flags: Any) -> None:
    """Check whether two sets of texts can be told apart without a model; exit with 1 if so.

    IN and OUT are members and others, such as texts that were trained on and texts that were not.
    Length, vocabulary, script, dates and a classifier of words are compared, user by user. Where
    one differs, membership attacks on these sets show nothing about a model.
    """
    from audit import api
    from audit.confounding import table

    compared = api.check_data(inside, outside, **given(flags))
    say(*table.text(compared).split("\n"))
    raise SystemExit(compared.exit_code)
