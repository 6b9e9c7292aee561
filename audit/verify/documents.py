"""Reads a run folder as it stands, whatever it contains."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.core.errors import DamagedError, UsageError, first_line
from audit.core.files import read_lines
from audit.results import foreign
from audit.results.complete import check_complete
from audit.results.folder import run_record
from audit.results.reading import read
from audit.results.schema import Results
from audit.verify.release import Rows


@dataclass(frozen=True)
class Stated:
    """A complete run's folder: results.json as it stands, and as typed; manifest.json."""

    folder: Path
    document: dict[str, Any]
    results: Results
    manifest: dict[str, Any]

    @cached_property
    def ledger(self) -> Rows:
        """The rows of ledger.jsonl by session. Raises UsageError where it cannot be read."""
        path, rows = self.folder / "ledger.jsonl", defaultdict(list)
        try:
            for line in read_lines(path):
                rows[line["session"]].append(line["row"])
        except (DamagedError, OSError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: cannot be read as a ledger ({first_line(error)})") from None
        return rows


def stated(folder: Path) -> Stated:
    """Read the results of a complete run or sweep. Raises UsageError for anything else."""
    foreign.check(folder)
    manifest = run_record(folder)
    if manifest is None:
        there = (folder / "manifest.json").exists()
        why = "its manifest.json cannot be read" if there else "it has no manifest.json"
        raise UsageError(f"{folder}: not a run folder: {why}")
    check_complete(str(manifest["status"]), folder)
    document, results = read(folder / "results.json")
    return Stated(folder, document, results, manifest)
