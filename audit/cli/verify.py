"""`audit verify`: does results.json follow from what lies beside it?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from audit.cli.commands import FOLDER
from audit.cli.say import say


def _file(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=click.Path(path_type=Path), metavar="FILE", help=help)


@click.command()
@FOLDER
@_file("frozen", "What `audit plan --freeze` wrote: check that the run followed it.")
@_file("signers", "SSH keys of those who may sign it, as ssh-keygen reads them.")
@_file("timestamp", "Reply of a timestamp authority (RFC 3161) about it.")
@_file("authority", "Certificates, PEM, that the timestamp must be under.")
@_file("rules", "The gate's rules: check that they are those that were frozen.")
@_file("bundle", "Sigstore bundle of it, of cosign or sigstore; verified without a network.")
@click.option("--identity", metavar="WHO", help="E-mail or URI that the bundle must be signed by.")
@click.option("--issuer", metavar="URL", help="OpenID provider that vouches for --identity.")
@_file("trusted-root", "Sigstore's trusted_root.json; the library's own unless given.")
def verify(folder: Path, **proofs: Any) -> None:
    """Derive results.json again from its evidence; exit with 1 where it does not follow."""
    from audit import api

    verification = api.verify(folder, **proofs)
    say(*str(verification).split("\n"))
    raise SystemExit(verification.exit_code)
