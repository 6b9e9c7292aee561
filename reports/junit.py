"""junit.xml: the checks of the gate, by policy and baseline of the working directory.

`audit/gate/render/junit.py` writes it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from audit.gate import files, verdict
from audit.gate.render import junit
from audit.results.schema import Results

FILENAME = junit.FILENAME


def write(results: Results, folder: Path) -> Path:
    """Writes junit.xml into `folder`."""
    outcome = verdict(results, files.policy_in(None), files.baseline_in(None), date.today())
    (path,) = files.write(outcome, folder, ["junit"])
    return path
