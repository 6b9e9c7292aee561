"""The command line. Light: nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from audit import __version__
from audit.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from audit.results import Results

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 3, 2, 130
KINDS = ("defenses", "attacks", "corpora", "models", "policies")
FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


class Commands(click.Group):
    """A group that suggests the command that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise UsageError(f"unknown command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="audit")
def cli() -> None:
    """Trains language models under privacy defenses, attacks them, reports what leaked."""
    from audit.plugins import check_one_place

    check_one_place()


@cli.command()
@click.option("--defense", multiple=True, metavar="NAME[:key=value,…]", help="Repeatable; or all.")
@click.option("--attack", multiple=True, metavar="NAME[:key=value,…]", help="Repeatable; or all.")
@click.option("--corpus", metavar="NAME|FILE|DIR|hf:NAME", help="Private text; default helpdesk.")
@click.option(
    "--model",
    metavar="NAME|DIR|hf:NAME|URL",
    help="Public base model (default embedded); with as_is, the model that is audited.",
)
@click.option("--secrets", metavar="MANIFEST", help="What `audit plant` planted, for as_is.")
@click.option("--epsilon", type=float, help="ε of every requested defense that has one, in nats.")
@click.option("--delta", type=float, help="δ; default 1/(10·N) for N private users.")
@click.option("--policy", help="Which characters are private; default digits.")
@click.option("--seed", type=int, help="Seed of every random stream; default 0.")
@click.option("--device", help="auto, cpu or cuda; default auto.")
@click.option("--output", metavar="DIR", help="Run folder; default: one under audits/.")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="TOML file of settings.")
@click.option("--format", "formats", metavar="json,html,pdf", help="Reports to write.")
@click.option(
    "--workers",
    metavar="N|ray|ray://HOST:PORT",
    help="Who trains: N processes (default: one a core), or Ray, here or a cluster's.",
)
@click.option(
    "--no-references", is_flag=True, help="Skip the controls; nothing is conclusive then."
)
@click.option("--reveal", is_flag=True, help="Write secrets in the clear (secrets.jsonl, samples).")
@click.option("--dry-run", is_flag=True, help="Say what would be run and what it could show.")
def run(plan_file: Path | None, formats: str | None, no_references: bool, **flags: Any) -> None:
    """Trains, attacks and reports; running the same plan again resumes."""
    from audit.settings import gather

    dry = flags.pop("dry_run")
    absent = (None, False, ())  # compared by identity: 0 is a value
    given = {k: v for k, v in flags.items() if not any(v is a for a in absent)}
    if formats is not None:
        given["format"] = _parts(formats)
    if no_references:
        given["references"] = False
    plan_file = plan_file or (
        Path(os.environ["AUDIT_PLAN"]) if "AUDIT_PLAN" in os.environ else None
    )
    settings = gather(given, plan_file)
    _run(settings, dry)


def _run(settings: dict[str, Any], dry: bool) -> None:
    from audit.folder import find
    from audit.plan import execution
    from audit.resolution import plan_of

    how, plan = execution(settings), plan_of(settings)
    folder = find(how.output, plan.hash)
    if dry:
        from audit.dry_run import describe

        click.echo(describe(plan, folder))
        return
    from audit import run as running

    results = _carried_out(partial(running.run, plan, how, folder))
    _told(results.headline, how.formats, folder.path)


def _carried_out(work: Callable[[Callable[[str, float], None]], Results]) -> Results:
    """A run or sweep with its progress shown; interrupted, it ends with how to resume it."""
    from audit.progress import Progress

    with Progress() as progress:
        try:
            return work(progress.report)
        except KeyboardInterrupt:
            progress.stop()
            click.echo(f"interrupted; resume with: audit {_again()}", err=True)
            raise SystemExit(EXIT_INTERRUPTED) from None


def _parts(text: str) -> tuple[str, ...]:
    """The words between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _again() -> str:
    import shlex

    return shlex.join(sys.argv[1:])


@cli.command()
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
@click.option(
    "--kind", multiple=True, metavar="code|id|name|record", help="Repeatable; default all."
)
@click.option("--count", type=int, help="Invented users, each decided by a coin; default 100.")
@click.option("--repetitions", metavar="R,…", help="Tiers of copies; default 1,4,16.")
@click.option("--seed", type=int, help="Default: one that the operating system draws.")
def plant(corpus: str, output: Path, manifest: Path, **flags: Any) -> None:
    """Plants canaries into a corpus that others will train on."""
    from audit import planting

    given = {key: value for key, value in flags.items() if value not in (None, ())}
    click.echo(planting.plant(corpus, output, manifest, given))


@cli.command()
@click.argument("plan_file", type=click.Path(path_type=Path), metavar="PLAN.toml")
@click.option("--output", metavar="DIR", help="Run folder; default: one under audits/.")
@click.option("--format", "formats", metavar="json,html,pdf", help="Reports to write.")
@click.option("--workers", metavar="N|ray|ray://HOST:PORT", help="Who trains.")
@click.option("--dry-run", is_flag=True, help="Print the grid and the trainings it needs.")
def sweep(plan_file: Path, formats: str | None, dry_run: bool, **flags: str | None) -> None:
    """Runs a grid of defenses, ε, parameters and seeds; the same plan again resumes."""
    from audit import corpus as corpora
    from audit import sweep as sweeping
    from audit.embedded import EMBEDDED_FOLDER
    from audit.folder import find
    from audit.models import loading
    from audit.plan import execution

    given: dict[str, Any] = {k: v for k, v in flags.items() if v is not None}
    if formats is not None:
        given["format"] = _parts(formats)
    settings, table = sweeping.read(plan_file, given)
    settings = {"attack": (), "corpus": "helpdesk", "model": "embedded", **settings}
    how = execution(settings)
    model = loading.describe(settings["model"], EMBEDDED_FOLDER)
    corpus = corpora.load(settings["corpus"], EMBEDDED_FOLDER)
    planned = sweeping.make_sweep(settings, table, corpus, model)
    folder = find(how.output, planned.hash)
    if dry_run:
        click.echo(sweeping.describe(planned, folder))
        return
    results = _carried_out(partial(sweeping.run, planned, how, folder))
    _told(results.headline, how.formats, folder.path)


def _told(headline: str, formats: tuple[str, ...], folder: Path) -> None:
    """The last lines on stdout: the sentence, and where the report is."""
    click.echo(headline)
    written = [n for n in ("html", "pdf", "json") if n in formats]
    shown = f"report.{written[0]}" if written and written[0] != "json" else "results.json"
    click.echo(str(folder / shown))


@cli.command()
@FOLDER
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.option("--baseline", "baseline_file", type=click.Path(path_type=Path), metavar="FILE.json")
@click.option("--strict", is_flag=True, help="Exit with 4 where the outcome is inconclusive.")
@click.option("--format", "formats", default="junit", metavar="junit,sarif", show_default=True)
def gate(
    folder: Path, policy_file: Path | None, baseline_file: Path | None, strict: bool, formats: str
) -> None:
    """Holds a run to audit.toml and audit-baseline.json; exits with 1 where it fails."""
    from datetime import date

    from audit.gate import console, files, verdict

    wanted = files.check_formats(formats)
    results = files.finished(folder)
    policy, baseline = files.policy_in(policy_file), files.baseline_in(baseline_file)
    outcome = verdict(results, policy, baseline, date.today(), strict)
    written = files.write(outcome, folder, wanted)
    files.append_summary(outcome, os.environ)
    click.echo("\n".join([console.render(outcome), *map(str, written)]))
    raise SystemExit(outcome.exit_code)


@cli.group(cls=Commands)
def baseline() -> None:
    """What a gate holds later runs to."""


@baseline.command()
@FOLDER
@click.option("--reason", required=True, metavar="TEXT", help="Why these results are accepted.")
@click.option("--only-tighten", is_flag=True, help="Refuse whatever would allow more than before.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("audit-baseline.json"),
    metavar="FILE",
    show_default=True,
)
def update(folder: Path, reason: str, only_tighten: bool, output: Path) -> None:
    """Accepts a run: writes what it measured, to be committed beside the code."""
    from datetime import date

    from audit.gate import baseline as baselines
    from audit.gate import files

    accepted = baselines.make(files.finished(folder), reason, date.today())
    click.echo("\n".join(files.update_baseline(output, accepted, only_tighten)))


@cli.command()
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
    from audit import plugins, results
    from audit.gate import comparison

    names = _parts(formats)
    writers = [plugins.module("reports", name) for name in names]
    for name, writer in zip(names, writers, strict=True):
        if not callable(getattr(writer, "write_comparison", None)):
            raise UsageError(f"--format {name}: a comparison is written as html or pdf")
    runs = [results.load(folder / "results.json") for folder in (one, other)]
    click.echo(comparison.text(comparison.compare(*runs)))
    if writers:
        output.mkdir(parents=True, exist_ok=True)
    for writer in writers:
        click.echo(str(writer.write_comparison(*runs, output)))


@cli.command("list")
@click.argument("kind", required=False, type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def list_(kind: str | None, as_json: bool) -> None:
    """What there is: defenses, attacks, corpora, models, policies."""
    from audit.listing import entries

    chosen = {k: entries(k) for k in ([kind] if kind else KINDS)}
    if as_json:
        import json

        click.echo(json.dumps(chosen[kind] if kind else chosen, indent=1, ensure_ascii=False))
        return
    for name, rows in chosen.items():
        click.echo(f"{name}:")
        for row in rows:
            click.echo(f"  {row['name']:<14} {row.get('summary', '')}".rstrip())


@cli.command()
@FOLDER
@click.option("--format", "formats", default="html,pdf", metavar="html,pdf,csv", show_default=True)
def report(folder: Path, formats: str) -> None:
    """Writes reports again, from results.json alone."""
    from audit import plugins, results

    wanted = _parts(formats)
    writers = [plugins.module("reports", name) for name in wanted if name != "json"]
    loaded = results.load(folder / "results.json")
    for writer in writers:
        click.echo(str(writer.write(loaded, folder)))


@cli.command()
@FOLDER
def clean(folder: Path) -> None:
    """Removes a run's stages: trained members and other costly results. Reports stay."""
    from audit.folder import clean as remove_stages

    size = remove_stages(folder)
    click.echo(f"removed {folder / 'stages'} ({size / 1e6:.1f} MB)")


@cli.command()
def doctor() -> None:
    """Checks this installation: packages, device, the embedded default."""
    from audit.checkup import checks

    lines = checks()
    for name, fine, detail in lines:
        click.echo(f"{'ok ' if fine else 'BAD'} {name}: {detail}")
    if not all(fine for _, fine, _ in lines):
        raise SystemExit(EXIT_FAILED)


@cli.command()
def schema() -> None:
    """The JSON Schema of results.json."""
    import json

    from audit import results

    click.echo(json.dumps(results.schema(), indent=1, ensure_ascii=False))


def _fail(message: str, code: int) -> NoReturn:
    if os.environ.get("AUDIT_DEBUG") == "1":
        raise
    printable = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
    click.echo(f"audit: {printable}", err=True)
    raise SystemExit(code)


def main() -> None:
    """The entry point: one line per error on stderr, and the contract's exit codes."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        raise SystemExit(done.exit_code) from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.ClickException as error:
        _fail(error.format_message(), EXIT_USAGE)
    except UsageError as error:
        _fail(str(error), EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:  # whatever it is, the user gets one line
        _fail(
            f"the run failed: {type(error).__name__}: {error}; AUDIT_DEBUG=1 shows where",
            EXIT_FAILED,
        )
