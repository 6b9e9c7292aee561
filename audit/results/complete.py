"""Refuses a run that is not complete: its results may lack what its plan asks for."""

from __future__ import annotations

import shlex
from pathlib import Path

from audit.core.errors import UsageError
from audit.results.commands import own
from audit.results.folder import run_record


def check_complete(status: str, folder: Path | None = None) -> None:
    """Raise UsageError for a run that was interrupted, failed or was killed, or goes on still.

    folder: of the run, where it is known; then the message names what resumes it.
    """
    if status == "complete":
        return
    found = "running, or was killed," if status == "running" else f"{status},"
    if folder is None:
        raise UsageError(f"the run is {found} not complete; run its plan again")
    again = _again(folder)
    raise UsageError(f"{folder}: the run is {found} not complete; resume it with: {again}")


def _again(folder: Path) -> str:
    """Name the command that resumes a run: its own, where its folder holds no other kind."""
    stated = str((run_record(folder) or {}).get("command", ""))
    other = f"the command that started it, and --output {shlex.quote(str(folder))}"
    return own(stated, folder) or other
