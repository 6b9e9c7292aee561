"""Commands that read what is there: compare, list, report, clean, schema."""

from __future__ import annotations

import json
from pathlib import Path

import click

from audit.cli.commands import FOLDER, parts
from audit.plugins.listing import entries

KINDS = ("defenses", "attacks", "corpora", "models", "policies")


@click.command()
@click.argument("one", type=click.Path(path_type=Path), metavar="A")
@click.argument("other", type=click.Path(path_type=Path), metavar="B")
@click.option("--format", "formats", default="", metavar="html,pdf", help="Reports to write.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("."),
    metavar="DIR",
    help="Where to; default: here.",
)
def compare(one: Path, other: Path, formats: str, output: Path) -> None:
    """Lays two runs side by side: plan, claims, utility, findings."""
    from audit import api

    runs = api.load(one), api.load(other)
    written = api.write_comparison(*runs, output, parts(formats))
    click.echo("\n".join([api.compare(*runs), *map(str, written)]))


@click.command("list")
@click.argument("kind", required=False, type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_(kind: str | None, as_json: bool) -> None:
    """What there is: defenses, attacks, corpora, models, policies."""
    chosen = {k: entries(k) for k in ([kind] if kind else KINDS)}
    if as_json:
        click.echo(json.dumps(chosen[kind] if kind else chosen, indent=1, ensure_ascii=False))
        return
    for name, rows in chosen.items():
        click.echo(f"{name}:")
        for row in rows:
            click.echo(f"  {row['name']:<14} {row.get('summary', '')}".rstrip())


@click.command()
@FOLDER
@click.option("--format", "formats", default="html,pdf", metavar="html,pdf,csv", show_default=True)
def report(folder: Path, formats: str) -> None:
    """Writes reports again, from results.json alone."""
    from audit import api

    for path in api.write_reports(folder, parts(formats)):
        click.echo(str(path))


@click.command()
@FOLDER
def clean(folder: Path) -> None:
    """Removes a run's stages: trained members and other costly results. Reports stay."""
    from audit.results.folder import clean as remove_stages

    size = remove_stages(folder)
    click.echo(f"removed {folder / 'stages'} ({size / 1e6:.1f} MB)")


@click.command()
def schema() -> None:
    """The JSON Schema of results.json."""
    from audit.results.schema import schema as results_schema

    click.echo(json.dumps(results_schema(), indent=1, ensure_ascii=False))
