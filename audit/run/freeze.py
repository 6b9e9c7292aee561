"""Freezes a plan: writes what will be audited and tested, before anything is."""

from __future__ import annotations

import subprocess
from pathlib import Path

from audit.core.errors import UsageError, first_line
from audit.core.writing import write_atomically
from audit.findings import LEVEL
from audit.plan.plan import Plan
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.digests import of_file
from audit.results.folder import RunFolder
from audit.results.frozen import NAMESPACE, Frozen


def freeze(
    plan: Plan, folder: RunFolder, path: Path, key: Path | None = None, rules: Path | None = None
) -> str:
    """Write the statement, sign it where a key is given, and return what was written.

    key: a private SSH key, or the public key of one in an agent; the signature is FILE.sig.
    rules: the gate's rules. Raises UsageError, also where the file exists: a statement is made
    once.
    """
    if path.exists():
        raise UsageError(f"{path}: exists already; a plan is frozen once, so choose another file")
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
        lines.append(f"signed: {path}.sig; the time is proven by nothing yet")
    lines.append(f"after the run: audit verify {folder.path} --frozen {path}")
    return "\n".join(lines)


def of_run(run: Run, rules: Path | None = None) -> Frozen:
    """State what a run will audit and test. rules: the gate's, None for the default."""
    plan, family = run.plan, run.family
    releases = tuple(chosen.label for chosen in plan.defenses)
    digest = "" if rules is None else of_file(rules)
    return Frozen(plan.document, releases, family.tests, family.claims, LEVEL, digest)


def _sign(path: Path, key: Path) -> None:
    """Sign a file by ssh-keygen; remove the file where that fails. Raises UsageError."""
    words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(path)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        why = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        why = first_line(error)
    if why or not path.with_name(f"{path.name}.sig").exists():
        path.unlink()
        raise UsageError(f"{key}: cannot sign ({first_line(ValueError(why))}); nothing was frozen")
