"""Verifies that a run follows a plan that was frozen before it, and what proves when that was."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from audit.core.digest import sha256_of_file
from audit.core.errors import UsageError, first_line
from audit.core.files import regular
from audit.results.frozen import NAMESPACE, Frozen, read, signature_of
from audit.results.joined import LEVEL
from audit.results.numbers import plain
from audit.verify.differences import differences
from audit.verify.documents import Stated
from audit.verify.sigstore_bundle import Bundle, existed

EARLIER = (
    "that plans, this one too, were run or frozen earlier, and left unused, cannot be excluded"
)
_BEGAN = "on which the run says that it began"
_TIME = re.compile(r"^Time stamp: (.+) GMT$", re.MULTILINE)
_SAFE = re.compile(r"^Hash Algorithm: sha(3-)?(256|384|512)$", re.MULTILINE)
_FORM = "%b %d %H:%M:%S %Y"


@dataclass(frozen=True)
class Proofs:
    """Proofs of who froze a plan, and when.

    statement: the file. signers: allowed signers, as ssh-keygen reads them; the signature is
        FILE.sig. timestamp: a reply of a timestamp authority (RFC 3161) about the file, and
        authority: the certificates that it must be signed under. rules: those of the gate. bundle:
        Sigstore's, of the file.
    """

    statement: Path
    signers: Path | None = None
    timestamp: Path | None = None
    authority: Path | None = None
    rules: Path | None = None
    bundle: Bundle | None = field(default=None, kw_only=True)


def of_frozen(run: Stated, proofs: Proofs) -> tuple[list[str], list[str], list[str]]:
    """Return what differs, what is shown, and what is not shown, one line each.

    Raises UsageError for files that cannot be read, and for proofs of something else.
    """
    frozen = read(proofs.statement)
    lines = [f"{proofs.statement.name}: {line}" for line in _differences(run, frozen)]
    lines += [f"{proofs.statement.name}: {line}" for line in _of_rules(proofs.rules, frozen)]
    signed, times = _proven(proofs)
    stamped, began = min(times, default=None), _began(run)
    if stamped and began and stamped.date() > began:
        late = f"its proven time, {stamped.date()}, is after {began}, the day {_BEGAN}"
        lines.append(f"{proofs.statement.name}: {late}")
    made = f"the run follows the plan of {proofs.statement.name}{_when(stamped, began)}"
    unsigned = "who froze the plan: no --signers and no --bundle, so no signature was checked"
    open_ = [EARLIER] if signed else [unsigned, EARLIER]
    open_ += [] if proofs.rules else ["which rules a gate goes by: no --rules to compare"]
    if stamped is None:
        open_.append("the time at which the plan was frozen is not proven")
    elif began is None:
        open_.append("that this was before the run, which states no past day on which it began")
    elif stamped.date() == began:
        open_.append(
            f"that this was before the run, of whose beginning only the day is known, {began}"
        )
    return lines, [made, *signed], open_


def _began(run: Stated) -> date | None:
    """Return the day (UTC) on which the run says that it began; None for none, or one to come."""
    try:
        began = date.fromisoformat(run.results.environment.get("began"))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return began if began <= datetime.now(UTC).date() else None


def _when(stamped: datetime | None, began: date | None) -> str:
    """State when a plan existed, and whether that is on a day before the run began."""
    if stamped is None:
        return ""
    earlier = began is not None and stamped.date() < began
    before = f", before {began}, the day {_BEGAN}" if earlier else ""
    return f", which existed at {stamped:%Y-%m-%d %H:%M} UTC{before}"


def _of_rules(rules: Path | None, frozen: Frozen) -> Iterator[str]:
    """Compare the digest of the gate's rules, where they are given, with the stated one."""
    found = frozen.rules if rules is None else sha256_of_file(_regular(rules))
    if found != frozen.rules:
        yield f"rules: those of {rules} have {found}, frozen {frozen.rules or 'the default rules'}"


def _differences(run: Stated, frozen: Frozen) -> Iterator[str]:
    plan = {name: value for name, value in run.results.plan.items() if name != "hash"}
    yield from differences("plan", plain(plan), plain(frozen.plan))
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


def _proven(proofs: Proofs) -> tuple[list[str], list[datetime]]:
    """Return who signed the statement, one line each, and times (UTC) at which it existed."""
    signed = [] if proofs.signers is None else [_signed(proofs.statement, proofs.signers)]
    stamped = _stamped(proofs)
    times = [] if stamped is None else [stamped]
    if proofs.bundle is not None:
        times.append(existed(proofs.statement, proofs.bundle))
        signed.append(f"the frozen plan is signed by {proofs.bundle.signer}")
    return signed, times


def _signed(path: Path, allowed: Path) -> str:
    """Return who signed the statement. Raises UsageError where none of those allowed did."""
    signature, signers = _regular(signature_of(path)), _regular(allowed)
    found = _run(
        ["ssh-keygen", "-Y", "find-principals", "-s", signature, "-f", signers],
        f"{signature}: not signed by one of {signers}",
    )
    lines = found.decode("utf-8", errors="replace").splitlines()
    who = next((line for line in lines if not line.startswith("!")), "")  # "!" excludes
    words: list[str | Path] = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", who]
    words += ["-n", NAMESPACE, "-s", signature]
    _run(words, f"{signature}: not a signature of {path}", path.read_bytes())
    return f"the frozen plan is signed by a key that {signers.name} allows for {who}"


def _stamped(proofs: Proofs) -> datetime | None:
    """Return the time of the timestamp, in UTC; None without one.

    It is read from the token, which is signed: the text of a reply's status is anybody's.
    """
    if proofs.timestamp is None:
        return None
    if proofs.authority is None:
        raise UsageError(f"{proofs.timestamp}: give --authority, the certificates that it is under")
    stamp, authority = _regular(proofs.timestamp), _regular(proofs.authority)
    words: list[str | Path] = ["openssl", "ts", "-verify", "-data", proofs.statement.absolute()]
    words += ["-in", stamp, "-CAfile", authority]
    _run(words, f"{stamp}: not a timestamp of {proofs.statement} under {authority}")
    text = _of_token(stamp)
    found = _TIME.search(text)
    if found is None or not _SAFE.search(text):
        raise UsageError(f"{stamp}: states no time of a SHA-256; ask for it with -sha256")
    form = f"{_FORM[:-3]}.%f %Y" if "." in found[1] else _FORM
    return datetime.strptime(" ".join(found[1].split()), form).replace(tzinfo=UTC)


def _of_token(stamp: Path) -> str:
    """Print what is signed of a timestamp's reply."""
    unread = f"{stamp}: cannot be read as a timestamp"
    with TemporaryDirectory() as folder:
        token = Path(folder, "token")
        words: list[str | Path] = ["openssl", "ts", "-reply", "-in"]
        _run([*words, stamp, "-token_out", "-out", token], unread)
        text = _run([*words, token, "-token_in", "-text"], unread)
    return text.decode("utf-8", errors="replace")


def _regular(path: Path) -> Path:
    """Return the whole path of a regular file, which is no option. Raises UsageError."""
    try:
        return regular(path).absolute()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _run(words: Sequence[str | Path], wrong: str, given: bytes = b"") -> bytes:
    """Run another program and return what it prints. Raises UsageError with what is wrong."""
    try:
        done = subprocess.run(list(map(str, words)), input=given, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"{words[0]}: cannot be run ({first_line(error)}); install it") from None
    if done.returncode:
        raise UsageError(f"{wrong} ({words[0]} refuses it)")
    return done.stdout
