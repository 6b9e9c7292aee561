"""What a gate reads and writes: a finished run's results, policy and baseline; its reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from audit import __version__
from audit.core.errors import UsageError, did_you_mean
from audit.core.files import write_atomically
from audit.gate import baseline, policy
from audit.gate.baseline import Baseline
from audit.gate.outcome import Outcome
from audit.gate.policy import Policy
from audit.gate.render import junit, markdown, sarif
from audit.results.folder import manifest_of
from audit.results.schema import Results, load

FORMATS = ("junit", "sarif")


def finished(folder: Path) -> Results:
    """The results of a run that is complete. Raises UsageError for any other."""
    results = load(folder / "results.json")
    for status in (results.status, _marked(folder)):
        if status != "complete":
            raise UsageError(f"{folder}: the run is {status}, not complete; run its plan again")
    return results


def _marked(folder: Path) -> str:
    """What the manifest says of the run. Results that came alone are those of a complete one."""
    path = folder / "manifest.json"
    if not _there(path):
        return "complete"
    manifest = manifest_of(folder) or {}
    if not manifest.get("hash") or "status" not in manifest:
        raise UsageError(f"{path}: is damaged, or of another program; run its plan again")
    return str(manifest["status"])


def _there(path: Path) -> bool:
    """Whether there is such a file. Raises UsageError for what is no file: what was meant to be
    read must not pass for absent."""
    if not os.path.lexists(path):
        return False
    if not path.is_file():
        what = "a link to no file" if path.is_symlink() else "no file"
        raise UsageError(f"{path}: is {what}; mend or remove it")
    return True


def policy_in(path: Path | None) -> Policy:
    """The policy asked for, else audit.toml in the working directory, else the default one."""
    if path is None and not _there(Path(policy.FILENAME)):
        return Policy()
    return policy.load(path or Path(policy.FILENAME))


def baseline_in(path: Path | None) -> Baseline | None:
    """The baseline asked for, else audit-baseline.json in the working directory, else none."""
    if path is None and not _there(Path(baseline.FILENAME)):
        return None
    return baseline.load(path or Path(baseline.FILENAME))


def check_formats(text: str) -> list[str]:
    """The formats of `junit,sarif`. Raises UsageError for another."""
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
    """Writes the baseline, and returns what to say: where, and what new metrics cost the others.
    Raises UsageError, and writes nothing, if it would loosen one that may only be tightened."""
    said = None
    if only_tighten and _there(path):
        old = baseline.load(path)
        reason, said = baseline.loosened(old, new), baseline.grown(old, new)
        if reason is not None:
            raise UsageError(f"{path}: would be loosened: {reason}; nothing was written")
    written = replaced(path, baseline.text(new))
    return [str(written), *filter(None, [said])]
