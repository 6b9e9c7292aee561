"""Reads a run folder as it stands, whatever it contains."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from audit.core.errors import DamagedError, UsageError, first_line
from audit.core.files import read_json, read_lines
from audit.results import foreign
from audit.results.folder import run_record
from audit.results.schema import SCHEMA_VERSION, Results, first_error
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
    path = folder / "results.json"
    foreign.check(folder)
    manifest = run_record(folder)
    if manifest is None:
        there = (folder / "manifest.json").exists()
        why = "its manifest.json cannot be read" if there else "it has no manifest.json"
        raise UsageError(f"{folder}: not a run folder: {why}")
    if manifest.get("status") != "complete":
        status = manifest.get("status")
        known = f"is {status}, not complete" if isinstance(status, str) else "states no status"
        raise UsageError(f"{folder}: the run {known}; run its plan again")
    try:
        document = read_json(path)
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            raise UsageError(f"{path}: schema version {version!r}; verified is {SCHEMA_VERSION!r}")
        return Stated(folder, document, Results.model_validate(document), manifest)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error)}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as results ({first_line(error)})") from None
