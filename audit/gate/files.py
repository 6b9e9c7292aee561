"""Reads a complete run, a policy and a baseline, and judges by them; writes the baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.writing import FULL, append, write_atomically
from audit.findings import stored
from audit.gate import baseline, policy, verdict
from audit.gate.baseline import Baseline
from audit.gate.outcome import Outcome
from audit.gate.policy import Policy
from audit.gate.render import markdown
from audit.results import foreign
from audit.results.complete import check_complete
from audit.results.folder import run_record
from audit.results.schema import Results


def finished(folder: Path) -> Results:
    """Read the results of a complete run. Raises UsageError for an incomplete one."""
    foreign.check(folder)
    check_complete(_status(folder), folder)
    results = stored.load(folder / "results.json")
    check_complete(results.status, folder)
    return results


def _status(folder: Path) -> str:
    """Return the status in manifest.json. Without that file the results count as complete."""
    path = folder / "manifest.json"
    if not _exists(path):
        return "complete"
    record = run_record(folder)
    if record is None:
        raise UsageError(f"{path}: is damaged, or of another program; run its plan again")
    return str(record["status"])


def _exists(path: Path) -> bool:
    """Return whether the file exists.

    Raises UsageError for a folder or a broken link: a file that cannot be read must not pass for
    an absent one.
    """
    if not os.path.lexists(path):
        return False
    if not path.is_file():
        what = "a link that leads to no file" if path.is_symlink() else "not a file"
        raise UsageError(f"{path}: is {what}; repair or remove it")
    return True


def policy_in(path: Path | None) -> Policy:
    """Read the policy at `path`, else audit.toml in the working directory, else the default."""
    if path is None and not _exists(Path(policy.FILENAME)):
        return Policy()
    return policy.load(path or Path(policy.FILENAME))


def baseline_in(path: Path | None) -> Baseline | None:
    """Read the baseline at `path`, else audit-baseline.json in the working directory, if any."""
    if path is None and not _exists(Path(baseline.FILENAME)):
        return None
    return baseline.load(path or Path(baseline.FILENAME))


def judged(
    results: Results, policy_file: Path | None, baseline_file: Path | None, strict: bool
) -> Outcome:
    """Judge a run by these files, as `policy_in` and `baseline_in` find them.

    Raises UsageError for a run that is not complete.
    """
    check_complete(results.status)
    rules, accepted = policy_in(policy_file), baseline_in(baseline_file)
    return verdict(results, rules, accepted, date.today(), strict)


def append_summary(outcome: Outcome, environment: Mapping[str, str]) -> None:
    """Append the Markdown summary to the file that GitHub names, if it names one."""
    name = environment.get("GITHUB_STEP_SUMMARY")
    if name:
        try:
            append(Path(name), markdown.render(outcome))
        except OSError as error:
            raise UsageError(f"{name}: cannot be written ({error.strerror})") from None


def replaced(path: Path, content: str | bytes) -> Path:
    """Replace a file as a whole. Raises UsageError where it cannot be written, OSError where the
    disk is full."""
    try:
        write_atomically(path, content)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
    return path


def update_baseline(path: Path, new: Baseline, only_tighten: bool) -> list[str]:
    """Write the baseline; return the lines to print: its path, the leaks it accepts, and a note.

    Raises UsageError, and writes nothing, if it would loosen a baseline that may only tighten.
    """
    note = None
    if only_tighten and _exists(path):
        old = baseline.load(path)
        reason, note = baseline.loosened(old, new), baseline.grown(old, new)
        if reason is not None:
            raise UsageError(f"{path}: would be loosened: {reason}; nothing was written")
    written = replaced(path, baseline.text(new))
    return [str(written), *filter(None, [baseline.accepted(new), note])]
