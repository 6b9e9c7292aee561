"""The gate's answer as it is kept beside results.json, so that page one can show it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from audit.core.digest import sha256_of_file
from audit.core.files import read_json
from audit.core.visible import visible
from audit.gate.files import replaced
from audit.gate.outcome import Outcome, State

FILENAME = "gate.json"
_RESULTS = "results.json"


@dataclass(frozen=True)
class Gated:
    """The last answer of the gate about these very results."""

    state: State
    headline: str


def write(outcome: Outcome, folder: Path) -> Path:
    """Keep the answer with the digest of the results that it is about."""
    kept = {
        "results_sha256": sha256_of_file(folder / _RESULTS),
        "state": str(outcome.state),
        "headline": outcome.headline,
    }
    return replaced(folder / FILENAME, json.dumps(kept, indent=1) + "\n")


def read(folder: Path) -> Gated | None:
    """Return the answer that was kept; None where there is none about these results."""
    try:
        kept = read_json(folder / FILENAME)
        if kept["results_sha256"] != sha256_of_file(folder / _RESULTS):
            return None
        return Gated(State(kept["state"]), visible(str(kept["headline"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None
