"""`audit run`: one audit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from audit.cli.commands import (
    AUTHOR,
    COIN_USERS,
    FORMATS,
    LOG,
    TEMPLATE,
    TRUST,
    TRUST_STAGES,
    carry_out,
    given,
    reading,
)
from audit.cli.interrupts import end_at_once
from audit.cli.say import say
from audit.core.machine import launched
from audit.core.wording import by_kind


@click.command()
@click.option("--defense", multiple=True, metavar="NAME[:key=value,…]", help="Repeatable; or all.")
@click.option("--attack", multiple=True, metavar="NAME[:key=value,…]", help="Repeatable; or all.")
@click.option("--corpus", metavar="NAME|FILE|DIR|hf:NAME", help="Private text; default helpdesk.")
@reading
@click.option(
    "--model",
    metavar="NAME|DIR|hf:NAME|URL",
    help="Public base model (default embedded); with as_is, the model that is audited.",
)
@click.option("--secrets", metavar="MANIFEST", help="What `audit plant` planted, for as_is.")
@click.option("--epsilon", type=float, help="ε of every requested defense that has one, in nats.")
@click.option("--delta", type=float, help="δ; default min(1/(10·N), 1e-5) for N private users.")
@click.option("--policy", help="Which characters are private; default digits.")
@click.option(
    "--release",
    metavar="text[:texts=N,tokens=T]",
    help="Release only texts that each defended model writes, N of at most T tokens.",
)
@COIN_USERS
@TEMPLATE
@click.option("--seed", type=int, help="Seed of every random stream; default 0.")
@click.option("--device", help="auto, cpu or cuda; default auto.")
@click.option("--lora", metavar="r=8,alpha=16,…", help="Train adapters instead of all weights.")
@click.option("--output", metavar="DIR", help="Run folder; default: one under audits/.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="TOML file of settings.")
@FORMATS
@LOG
@click.option(
    "--workers",
    metavar="N|ray|ray://HOST:PORT",
    help="Who trains: N processes (default: as many as cores and memory hold), or Ray, here or a "
    "cluster's.",
)
@click.option(
    "--processes",
    type=int,
    metavar="N",
    help="Train each model of dp_sgd, s_dpsgd and dp_ftrl by N processes together; default 1.",
)
@click.option(
    "--sharded",
    is_flag=True,
    help="With --processes and --lora: each process holds a part of the base's blocks.",
)
@click.option("--threads", type=int, help="CPU threads of each process; default by model size.")
@click.option(
    "--looks",
    type=int,
    metavar="N",
    help="With as_is: there will be N audits of the same coins, of which this is one.",
)
@click.option(
    "--after",
    metavar="DIR",
    help="With --looks: the folder of the audit before this one, so that both cost less.",
)
@click.option(
    "--until",
    type=click.Choice(["decided"]),
    help="With as_is: ask about a tenth of the people at a time, and stop at a leak.",
)
@click.option(
    "--no-references",
    is_flag=True,
    help="Skip the controls: finding no leak is then hardly ever conclusive.",
)
@click.option(
    "--remedies",
    is_flag=True,
    help="Also train what may close a leak: without near-duplicates, fewer epochs, dp_sgd.",
)
@click.option("--reveal", is_flag=True, help="Write secrets in the clear (secrets.jsonl, samples).")
@AUTHOR
@TRUST
@TRUST_STAGES
@click.option("--dry-run", is_flag=True, help="Say what would be run and what it could show.")
def run(
    plan_file: Path | None,
    formats: tuple[str, ...],
    log: str | None,
    no_references: bool,
    template: tuple[str, ...],
    dry_run: bool,
    **flags: Any,
) -> None:
    """Train, attack and report; running the same plan again resumes."""
    if rank := launched():
        return None if dry_run else _serve(rank)
    from audit import api

    settings = chosen(flags, formats, no_references, template)
    carry_out(api.planned(plan_file or os.environ.get("AUDIT_PLAN"), **settings), dry_run, log)


def chosen(
    flags: dict[str, Any],
    formats: tuple[str, ...],
    no_references: bool,
    template: tuple[str, ...],
) -> dict[str, Any]:
    """Collect the settings of a run that were given."""
    settings = given(flags, formats)
    if no_references:
        settings["references"] = False
    if template:
        settings["planting"] = {f"{kind}_template": t for kind, t in by_kind(template).items()}
    return settings


def _serve(rank: int) -> None:
    """Train with the process of rank 0, as one that torchrun or `accelerate launch` has started."""
    from audit.train.workers.together import serve_launched

    end_at_once()
    place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    say(f"RANK={rank}: trains with the process of RANK=0, which it meets at {place}", err=True)
    serve_launched()
