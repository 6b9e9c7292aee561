"""Verifies that a run follows a plan that was frozen before it, and what proves when that was."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from audit.core.errors import UsageError, first_line
from audit.results.frozen import NAMESPACE, Frozen, read, with_words
from audit.results.joined import LEVEL
from audit.verify.differences import differences
from audit.verify.documents import Stated

EARLIER = "that other plans were frozen earlier, and left unused, cannot be excluded"
_TIME = re.compile(r"^Time stamp: (.+) GMT$", re.MULTILINE)
_FORM = "%b %d %H:%M:%S %Y"


@dataclass(frozen=True)
class Proofs:
    """Proofs of who froze a plan, and when.

    statement: the file. signers: allowed signers, as ssh-keygen reads them; the signature is
        FILE.sig. timestamp: a reply of a timestamp authority (RFC 3161) about the file, and
        authority: the certificates that it must be signed under.
    """

    statement: Path
    signers: Path | None = None
    timestamp: Path | None = None
    authority: Path | None = None


def of_frozen(run: Stated, proofs: Proofs) -> tuple[list[str], list[str], list[str]]:
    """Return what differs, what is shown, and what is not shown, one line each.

    Raises UsageError for files that cannot be read, and for proofs of something else.
    """
    frozen = read(proofs.statement)
    lines = [f"{proofs.statement.name}: {line}" for line in _differences(run, frozen)]
    signed, unsigned = _signed(proofs)
    stamped = _stamped(proofs)
    open_ = [*unsigned, EARLIER]
    if stamped is None:
        open_.append("the time at which the plan was frozen is not proven")
    elif stamped.date().isoformat() > str(run.results.environment.get("date", "")):
        lines.append(f"{proofs.statement.name}: its timestamp {stamped:%Y-%m-%d} is after the run")
    when = "" if stamped is None else f", which existed at {stamped:%Y-%m-%d %H:%M} UTC"
    made = f"the run follows the plan of {proofs.statement.name}{when}"
    return lines, [made, *signed], open_


def _differences(run: Stated, frozen: Frozen) -> Iterator[str]:
    plan = {name: value for name, value in run.results.plan.items() if name != "hash"}
    yield from differences("plan", with_words(plan), with_words(frozen.plan))
    if run.results.plan.get("hash") != frozen.hash:
        yield f"plan.hash: run {run.results.plan.get('hash')}, frozen {frozen.hash}"
    if frozen.level != LEVEL:
        yield f"level: used {LEVEL}, frozen {frozen.level}"
    for release in run.results.releases:
        sizes = (release.tests, release.claim_tests)
        if sizes != (frozen.tests, frozen.claim_tests):
            yield (
                f"releases.{release.defense}: adjusted for {sizes[0]} tests and {sizes[1]} bounds, "
                f"frozen {frozen.tests} and {frozen.claim_tests}"
            )


def _signed(proofs: Proofs) -> tuple[list[str], list[str]]:
    """Return who signed the statement, or why that is not shown."""
    path = proofs.statement
    signature = path.with_name(f"{path.name}.sig")
    if proofs.signers is None:
        return [], ["who froze the plan: no --signers, so its signature was not checked"]
    found = _run(
        ["ssh-keygen", "-Y", "find-principals", "-s", signature, "-f", proofs.signers],
        f"{signature}: not signed by one of {proofs.signers}",
    )
    who = found.splitlines()[0]
    words: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-f", proofs.signers, "-I", who]
    words += ["-n", NAMESPACE, "-s", signature]
    _run(words, f"{signature}: not a signature of {path}", path)
    return [f"the frozen plan is signed by {who}"], []


def _stamped(proofs: Proofs) -> datetime | None:
    """Return the time of the timestamp, in UTC; None without one."""
    if proofs.timestamp is None:
        return None
    if proofs.authority is None:
        raise UsageError(f"{proofs.timestamp}: give --authority, the certificates that it is under")
    words: list[str | Path] = ["openssl", "ts", "-verify", "-data", proofs.statement]
    words += ["-in", proofs.timestamp, "-CAfile", proofs.authority]
    _run(
        words,
        f"{proofs.timestamp}: not a timestamp of {proofs.statement} under {proofs.authority}",
    )
    words = ["openssl", "ts", "-reply", "-in", proofs.timestamp, "-text"]
    text = _run(words, f"{proofs.timestamp}: cannot be read as a timestamp")
    found = _TIME.search(text)
    if found is None:
        raise UsageError(f"{proofs.timestamp}: states no time")
    form = f"{_FORM[:-3]}.%f %Y" if "." in found[1] else _FORM
    return datetime.strptime(" ".join(found[1].split()), form).replace(tzinfo=UTC)


def _run(words: Sequence[str | Path], wrong: str, stdin: Path | None = None) -> str:
    """Run another program and return what it prints. Raises UsageError with what is wrong."""
    try:
        given = None if stdin is None else stdin.read_bytes()
        done = subprocess.run(list(map(str, words)), input=given, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"{wrong} ({first_line(error)})") from None
    if done.returncode:
        raise UsageError(f"{wrong} ({words[0]} refuses it)")
    return done.stdout.decode("utf-8", errors="replace")
