"""Reads a complete run, a policy and a baseline for the gate, and writes its reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from audit import __version__
from audit.core.errors import UsageError, did_you_mean
from audit.core.files import write_atomically
from audit.findings import stored
from audit.gate import baseline, policy
from audit.gate.baseline import Baseline
from audit.gate.outcome import Outcome
from audit.gate.policy import Policy
from audit.gate.render import junit, markdown, sarif
from audit.results.folder import run_record
from audit.results.schema import Results

FORMATS = ("junit", "sarif")


def finished(folder: Path) -> Results:
    """Reads the results of a complete run. Raises UsageError for an incomplete one."""
    results = stored.load(folder / "results.json")
    for status in (results.status, _status(folder)):
        if status != "complete":
            raise UsageError(f"{folder}: the run is {status}, not complete; run its plan again")
    return results


def _status(folder: Path) -> str:
    """The status in manifest.json. Without that file the results count as complete."""
    path = folder / "manifest.json"
    if not _exists(path):
        return "complete"
    record = run_record(folder) or {}
    if not record.get("hash") or "status" not in record:
        raise UsageError(f"{path}: is damaged, or of another program; run its plan again")
    return str(record["status"])


def _exists(path: Path) -> bool:
    """Whether the file exists.

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
    """Reads the policy at `path`, else audit.toml in the working directory, else the default."""
    if path is None and not _exists(Path(policy.FILENAME)):
        return Policy()
    return policy.load(path or Path(policy.FILENAME))


def baseline_in(path: Path | None) -> Baseline | None:
    """Reads the baseline at `path`, else audit-baseline.json in the working directory, if any."""
    if path is None and not _exists(Path(baseline.FILENAME)):
        return None
    return baseline.load(path or Path(baseline.FILENAME))


def check_formats(text: str) -> list[str]:
    """Parses a list such as `junit,sarif`. Raises UsageError for an unknown format."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for name in wanted:
        if name not in FORMATS:
            raise UsageError(f"unknown format {name!r}{did_you_mean(name, list(FORMATS))}")
    return wanted


def write(outcome: Outcome, folder: Path, formats: list[str]) -> list[Path]:
    """Writes junit.xml and report.sarif into the run folder. Raises UsageError where it cannot."""
    written = []
    if "junit" in formats:
        written.append(replaced(folder / junit.FILENAME, junit.render(outcome)))
    if "sarif" in formats:
        written.append(replaced(folder / sarif.FILENAME, sarif.render(outcome, __version__)))
    return written


def append_summary(outcome: Outcome, environment: Mapping[str, str]) -> None:
    """Appends the Markdown summary to the file that GitHub names, if it names one."""
    name = environment.get("GITHUB_STEP_SUMMARY")
    if name:
        try:
            with open(name, "a", encoding="utf-8") as stream:
                stream.write(markdown.render(outcome))
        except OSError as error:
            raise UsageError(f"{name}: cannot be written ({error.strerror})") from None


def replaced(path: Path, text: str) -> Path:
    """Replaces a file as a whole. Raises UsageError where it cannot be written."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
    return path


def update_baseline(path: Path, new: Baseline, only_tighten: bool) -> list[str]:
    """Writes the baseline; returns the lines to print: its path, the leaks it accepts, and a note.

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
