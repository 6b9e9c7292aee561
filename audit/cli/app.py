"""The command line: one group of commands, one line per error, and the contract's exit codes.

Light: a command imports what it needs when it is called.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
from typing import NoReturn

import click

from audit import __version__
from audit.cli.check import check
from audit.cli.check_data import check_data
from audit.cli.commands import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Commands
from audit.cli.doctor import doctor
from audit.cli.export import export
from audit.cli.figure import figure
from audit.cli.gate import baseline, gate
from audit.cli.plan import command as plan
from audit.cli.plant import plant
from audit.cli.run import run
from audit.cli.say import say
from audit.cli.show import clean, compare, list_, report, schema
from audit.cli.sweep import sweep
from audit.cli.verify import verify
from audit.core.errors import DamagedError, UsageError
from audit.core.masking import without_key
from audit.core.writing import FULL
from audit.plugins.registry import check_one_place


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="audit")
def cli() -> None:
    """Train language models under privacy defenses, attack them, report what leaked."""
    check_one_place()


for command in (
    run,
    plan,
    plant,
    sweep,
    gate,
    baseline,
    verify,
    check,
    check_data,
    compare,
    figure,
    list_,
    report,
    export,
    clean,
    doctor,
    schema,
):
    cli.add_command(command)

_PLACES = (  # what is wrong with the name of a file or a folder, not with this run
    errno.EACCES, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR,
    errno.EPERM, errno.EROFS,
)  # fmt: skip
_LONGEST = 200  # characters of a word in a message
_OBJECTS = 100_000  # made between collections; after each 700 they take a third of a dry run


def _shortened(word: str) -> str:
    half = _LONGEST // 2
    return word if len(word) <= _LONGEST else f"{word[:half]}…{word[-half:]}"


def _fail(message: str, code: int) -> NoReturn:
    if os.environ.get("AUDIT_DEBUG") == "1":
        raise
    line = " ".join(map(_shortened, without_key(message).split()))
    say(f"audit: {line}", err=True)
    raise SystemExit(code)


def _fail_unexpectedly(error: BaseException) -> NoReturn:
    what = f"{type(error).__name__}: {error}"
    _fail(f"the run failed: {what}; AUDIT_DEBUG=1 shows where", EXIT_FAILED)


def main() -> None:
    """Run the command line: one line per error on stderr, and the contract's exit codes."""
    gc.set_threshold(_OBJECTS)
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
    except DamagedError as error:
        _fail(str(error), EXIT_FAILED)
    except (KeyboardInterrupt, click.Abort):
        with contextlib.suppress(OSError):  # after a hang-up nobody reads on
            click.echo("audit: interrupted; run the same command again", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except OSError as error:
        if error.errno in FULL and error.filename is not None:
            folder = os.path.dirname(error.filename) or "."
            again = f"free some in {folder}, then run the same command again"
            _fail(f"{error.filename}: {error.strerror}; {again}", EXIT_FAILED)
        if error.errno not in _PLACES or error.filename is None:
            _fail_unexpectedly(error)
        what = str(error.strerror)
        _fail(f"{error.filename}: {what}{'; choose another place' * (';' not in what)}", EXIT_USAGE)
    except SystemExit:
        raise
    except BaseException as error:  # the user gets one line for any error, and any panic of Rust
        _fail_unexpectedly(error)
    finally:
        gc.freeze()  # what was imported is not searched for garbage once more at the end
