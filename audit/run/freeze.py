"""Freezes a plan: writes what will be audited and tested, before anything is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from audit.core.digest import sha256_of_file
from audit.core.errors import UsageError, first_line
from audit.core.writing import write_atomically
from audit.findings import LEVEL
from audit.plan.plan import Plan
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.results.frozen import NAMESPACE, Frozen, signature_of


def freeze(
    plan: Plan, folder: RunFolder, path: Path, key: Path | None = None, rules: Path | None = None
) -> str:
    """Write the statement, sign it where a key is given, and return what was written.

    key: a private SSH key, or the public key of one in an agent; the signature is FILE.sig.
    rules: the gate's rules. Raises UsageError, also where the file exists: a statement is made
    once.
    """
    for one in (path, signature_of(path)):
        if os.path.lexists(one):  # ssh-keygen would write through a link
            raise UsageError(
                f"{one}: exists already; a plan is frozen once, so choose another file"
            )
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder; make it first")
    frozen = of_run(prepare(plan, folder.stages), rules)
    write_atomically(path, frozen.text)
    lines = [
        f"{path}: plan {frozen.hash[:12]} is frozen: {', '.join(frozen.releases)}; {frozen.tests} "
        f"tests and {frozen.claim_tests} bounds on ε of each"
    ]
    if key is None:
        lines.append("not signed: anybody could write this file at any time; give --sign KEY")
    else:
        _sign(path, key)
        lines.append(f"signed: {signature_of(path)}; the time is proven by nothing yet")
    lines.append(f"after the run: audit verify {folder.path} --frozen {path}")
    return "\n".join(lines)


def of_run(run: Run, rules: Path | None = None) -> Frozen:
    """State what a run will audit and test. rules: the gate's, None for the default."""
    plan, family = run.plan, run.family
    digest = "" if rules is None else sha256_of_file(rules)
    return Frozen(plan.document, family.tests, family.claims, LEVEL, digest)


def _sign(path: Path, key: Path) -> None:
    """Sign a file by ssh-keygen; remove the file where that fails. Raises UsageError."""
    words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE]
    words.append(str(path.absolute()))  # a name that begins with a dash would be an option
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        signed, why = done.returncode == 0, done.stderr
    except OSError as error:
        signed, why = False, f"{first_line(error)}: it comes with OpenSSH"
    if not signed or not signature_of(path).exists():
        path.unlink()
        raise UsageError(f"{key}: cannot sign ({first_line(ValueError(why))}); nothing was frozen")
