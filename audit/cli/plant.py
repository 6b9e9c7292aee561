"""`audit plant`: canaries for a corpus that is trained on elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from audit.cli.commands import COIN_USERS, TEMPLATE, given, reading
from audit.cli.say import say


@click.command()
@click.argument("corpus", metavar="CORPUS")
@click.option(
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="The planted corpus: .jsonl, .txt, or a folder of splits.",
)
@click.option(
    "--manifest",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What is planted, and every coin: keep it to yourself.",
)
@reading
@click.option(
    "--kind",
    multiple=True,
    metavar="code|id|name|record|email|phone|key|pattern",
    help="Repeatable; default the first four.",
)
@click.option(
    "--pattern",
    metavar="REGEX",
    help="What values of --kind pattern look like, such as 'EMP-[0-9]{6}'.",
)
@click.option(
    "--turn",
    metavar="assistant|user",
    help="Whose turn a secret is, in conversations; default assistant.",
)
@click.option("--count", type=int, help="Invented users, each decided by a coin; default 100.")
@click.option("--repetitions", metavar="R,…", help="Tiers of copies; default up to 1,4,16.")
@click.option(
    "--beacons",
    metavar="auto|none",
    help="Values that many invented users share, which show what an attack sees where weights are "
    "not at hand; default none.",
)
@click.option(
    "--share",
    type=float,
    metavar="SHARE",
    help="Most that planted text may be of all; default 0.15.",
)
@COIN_USERS
@TEMPLATE
@click.option(
    "--design",
    metavar="random|model|echo|gradient|new_token",
    help="Records: random words, texts of --base, a likely beginning with an unlikely end, for "
    "releases of text only, random words whose gradients overlap least, or tokens added to --base, "
    "for audits of weights; default random, with --base new_token.",
)
@click.option("--base", metavar="NAME|DIR|hf:NAME", help="The model that the training starts from.")
@click.option("--seed", type=int, help="Default: one that the operating system draws.")
def plant(corpus: str, output: Path, manifest: Path, **flags: Any) -> None:
    """Plant canaries into a corpus that is trained on elsewhere."""
    from audit import api

    said = api.plant(corpus, output, manifest, **given(flags))
    say(*said.split("\n"))
