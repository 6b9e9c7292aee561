"""The parts that commands share: exit codes, argument types, and a hint for a mistyped name."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from audit.cli.interrupts import check, checking
from audit.cli.progress import Progress
from audit.cli.say import say
from audit.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from audit.api import Planned
    from audit.results.schema import Results

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 3, 2, 130
FOLDER = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
TRUST = click.option(
    "--trust-config", is_flag=True, help="Let pyproject.toml run code and lead outside its folder."
)
TRUST_STAGES = click.option(
    "--trust-stages",
    is_flag=True,
    help="Use stages that are not signed with your key: whoever made them decides the results.",
)
REPORTS = "json, html, pdf, csv, junit, sarif, intoto, cyclonedx, model_index, annex"
FORMATS = click.option(
    "--format",
    "formats",
    multiple=True,
    metavar="json,html,pdf",
    help=f"Reports to write, of {REPORTS}.",
)
LOG = click.option(
    "--log", metavar="mlflow:URI", help="Also log measures and reports to MLflow, if installed."
)
AUTHOR = click.option("--author", metavar="NAME", help="Who runs it, as page one then says.")
TEMPLATE = click.option(
    "--template",
    multiple=True,
    metavar="KIND=TEXT",
    help='Words around planted values, such as code="My PIN is #{value}."; default: drawn by seed.',
)
COIN_USERS = click.option(
    "--coin-users",
    type=float,
    metavar="SHARE",
    help="Share of the real users who get a fair coin each: if it is tails, no record of the user "
    "is trained on.",
)


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a corpus is read."""
    options = (
        click.option("--text", metavar="COLUMN", help="Column of the text, if it is not found."),
        click.option("--user", metavar="COLUMN", help="Column of the user: the unit of privacy."),
        click.option("--messages", metavar="COLUMN", help="Column of conversations."),
        click.option("--split", metavar="COLUMN", help="Column of the split."),
        click.option(
            "--records", metavar="lines|paragraphs|file", help="What a record of plain text is."
        ),
        click.option(
            "--user-form",
            metavar="exact|folded",
            help="Whether ids that differ in case, blanks or Unicode form are one user.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class Commands(click.Group):
    """A group that suggests the command that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise UsageError(f"unknown command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


def parts(texts: Iterable[str]) -> tuple[str, ...]:
    """Split words at commas, of an option that may be given more than once."""
    return tuple(part.strip() for part in ",".join(texts).split(",") if part.strip())


def given(flags: dict[str, Any], formats: tuple[str, ...] = ()) -> dict[str, Any]:
    """Collect the flags that were given, as settings. 0 is a value; None, False, () are absent."""
    settings = {k: v for k, v in flags.items() if not any(v is a for a in (None, False, ()))}
    return settings if not formats else {**settings, "format": parts(formats)}


def carry_out(planned: Planned, dry: bool, log: str | None = None) -> None:
    """Describe what is planned, or run it with its progress shown, and log it where asked to.

    The last lines on stdout are the verdict sentence and where the report is. Interrupted, it ends
    with how to resume it.
    """
    from audit import api
    from audit.results import badge

    check()  # what is imported to plan a run may have swallowed an interrupt
    if log:
        api.check_log(log)
    if dry:
        say(*planned.describe().split("\n"))
        return
    with Progress() as progress:
        try:
            results = planned.run(checking(progress.report))
        except KeyboardInterrupt:
            with contextlib.suppress(OSError):  # after a hang-up nobody reads on
                progress.stop()
                say(f"interrupted; resume with: audit {shlex.join(sys.argv[1:])}", err=True)
            raise SystemExit(EXIT_INTERRUPTED) from None
    say(badge.line(results), " ".join(results.headline))
    written = [n for n in ("html", "pdf", "json") if n in planned.formats]
    shown = f"report.{written[0]}" if written and written[0] != "json" else "results.json"
    say(str(planned.folder / shown))
    say("next:", *_next(planned.folder, shown, results), err=True)
    if log:
        api.log(planned.folder, log)


_OWN_TEXT = "  audit run --corpus MINE.jsonl --defense submix --attack extraction --dry-run"
_WITHOUT_REFERENCES = "  the same without --no-references: this run had no positive control"
_WITHOUT_CONTROL = (
    "  the same with --corpus PLANTED and as_is:base=DIR: this run had no positive control"
)


def _next(folder: Path, shown: str, results: Results) -> list[str]:
    """Name the commands that suit this run, and a positive control that it did not have."""
    opener = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    here, defenses = shlex.quote(str(folder)), {r.defense for r in results.releases}
    read = f"  {opener} {shlex.quote(str(folder / shown))}"
    lines = [f"  audit report {here}" if shown == "results.json" else read, f"  audit gate {here}"]
    if results.sweep is not None:
        lines.append(f"  audit figure {here} --x epsilon --y perplexity")
    if "none" not in defenses:
        bare = not results.plan.get("references", True)
        lines.append(_WITHOUT_REFERENCES if bare else _WITHOUT_CONTROL)
    lines += _remedies(results)
    if results.corpus.name == "helpdesk":  # the example, so their own text comes next
        lines.append(_OWN_TEXT)
    return lines


def _remedies(results: Results) -> list[str]:
    """Name what trains what may close a leak, unless it was trained already.

    A command stands on a line of its own, to be pasted as it is.
    """
    from audit.core.terms import Leaked
    from audit.results import badge
    from audit.results.labels import ELSEWHERE

    commands = badge.remedies(results)
    audited = [r for r in results.releases if not r.reference]
    if not commands and [r.leaked for r in audited] == [Leaked.LEAK]:
        elsewhere = audited[0].defense == ELSEWHERE
        more = "as_is:base=DIR and --corpus PLANTED" if elsewhere else "--remedies"
        return [f"  the same with {more}: what may close the leak"]
    return [line for command in commands for line in ("what may close the leak:", f"  {command}")]
