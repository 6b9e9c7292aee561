"""Commands that read what is there: compare, list, report, clean, schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from textwrap import wrap
from typing import Any

import click

from audit.cli.commands import FOLDER, LOG, REPORTS, parts
from audit.cli.say import say
from audit.core.errors import UsageError, did_you_mean
from audit.plugins.listing import entries

KINDS = ("defenses", "attacks", "corpora", "models", "policies")


@click.command()
@click.argument("one", type=click.Path(path_type=Path), metavar="A")
@click.argument("others", type=click.Path(path_type=Path), metavar="B [C]...", nargs=-1)
@click.option("--format", "formats", multiple=True, metavar="html,pdf", help="Reports to write.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("."),
    metavar="DIR",
    help="Where to; default: here.",
)
def compare(one: Path, others: tuple[Path, ...], formats: tuple[str, ...], output: Path) -> None:
    """Compare runs: settings, claims, answers, measures.

    Each run after A is compared with A. A measure is told apart only where its intervals
    do not overlap and an adjusted test rejects; what is the same takes one line.
    """
    from audit import api

    names = _lettered([one, *others])
    if formats and len(others) > 1:
        raise UsageError("--format: a report compares two runs; name two, or leave it out")
    first, *rest = (api.load(folder) for folder in names.values())
    written = api.write_comparison(first, rest[0], output, parts(formats)) if formats else []
    runs = [f"{letter}: {folder}" for letter, folder in names.items()]
    found = [
        api.compare(first, run, ("A", letter))
        for letter, run in zip(list(names)[1:], rest, strict=True)
    ]
    say(*runs)
    for text in found:
        say("", *text.split("\n"))
    if written:
        say("", *map(str, written))


def _lettered(folders: Sequence[Path]) -> dict[str, Path]:
    """Call the runs A, B, C and so on. Raises UsageError for fewer than two runs, or too many."""
    if not 2 <= len(folders) <= len(ascii_uppercase):
        raise UsageError(
            f"compare takes 2 to {len(ascii_uppercase)} run folders: audit compare A B"
        )
    return dict(zip(ascii_uppercase, folders, strict=False))


@click.command("list")
@click.argument("what", required=False, metavar="[KIND|NAME]")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_(what: str | None, as_json: bool) -> None:
    """List defenses, attacks, corpora, models, policies.

    With the name of one, such as submix: its parameters, their meanings and defaults.
    """
    if what is not None and what not in KINDS:
        one = _named(what)
        click.echo(json.dumps(one, indent=1, ensure_ascii=False) if as_json else _line(one))
        return
    chosen = {k: entries(k) for k in ([what] if what else KINDS)}
    if as_json:
        click.echo(json.dumps(chosen[what] if what else chosen, indent=1, ensure_ascii=False))
        return
    for name, rows in chosen.items():
        say(f"{name}:")
        for row in rows:
            say(f"  {row['name']:<19} {row.get('summary', '')}".rstrip())


def _named(name: str) -> dict[str, Any]:
    everything = [row for kind in KINDS for row in entries(kind)]
    one = next((row for row in everything if row["name"] == name), None)
    if one is None:
        known = [*KINDS, *(row["name"] for row in everything)]
        raise UsageError(f"there is no {name!r}{did_you_mean(name, known)}")
    return one


def _line(one: dict[str, Any]) -> str:
    """Describe one entry: a line on it, then each parameter with its default and meaning."""
    lines = [f"{one['name']}: {one.get('summary', '')}"]
    meanings = one.get("meanings", {})
    for name, default in one.get("parameters", {}).items():
        lines.append(f"  {name}={_written(default)}")
        lines += wrap(meanings[name], 92, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def _written(default: Any) -> str:
    return "none" if default is None else str(default).lower()


@click.command()
@FOLDER
@click.option(
    "--format",
    "formats",
    multiple=True,
    default=("html", "pdf"),
    metavar="html,pdf,csv",
    show_default=True,
    help=f"Reports to write, of {REPORTS}.",
)
@LOG
def report(folder: Path, formats: tuple[str, ...], log: str | None) -> None:
    """Write reports again, from results.json alone."""
    from audit import api

    for path in api.write_reports(folder, parts(formats)):
        say(str(path))
    if log:
        api.log(folder, log)


@click.command()
@click.argument("place", type=click.Path(path_type=Path), metavar="DIR|MANIFEST")
@click.option(
    "--personal",
    is_flag=True,
    help="Remove also what names people: coins, records set aside, revealed secrets and users.",
)
def clean(place: Path, personal: bool) -> None:
    """Remove a run's stages: trained members and other costly results. Reports stay.

    Scratch that killed runs with --workers ray left on this machine is removed, too. With
    --personal, a manifest goes with the records of users set aside that lie beside it.
    """
    from audit.results import folder as folders

    if place.is_file():
        say(f"removed {place} ({_manifest_removed(place, personal) / 1e6:.1f} MB)")
    elif personal:
        size = folders.clean_personal(place)
        say(f"removed what names people in {place}, and its stages ({size / 1e6:.1f} MB)")
    else:
        say(f"removed {place / 'stages'} ({folders.clean(place) / 1e6:.1f} MB)")


def _manifest_removed(place: Path, personal: bool) -> int:
    """Remove a manifest and what lies beside it. Raises UsageError for any other file."""
    from audit.planting import manifest, own

    manifest.read(place)
    if not personal:
        raise UsageError(
            f"{place}: is a manifest, without which nothing can be audited; add --personal to "
            "remove it with the records beside it"
        )
    return own.remove(place)


@click.command()
def schema() -> None:
    """Print the JSON Schema of results.json."""
    from audit.results.schema import schema as results_schema

    click.echo(json.dumps(results_schema(), indent=1, ensure_ascii=False))
