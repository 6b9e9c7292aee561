"""Runs of several kinds end with the same results, whenever they were killed.

One process, a pool, Ray, sweeps and models trained elsewhere are killed in tests of their own, and
`tests/kills.py` does all.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "kills.py"
KINDS = ("adapters", "text", "endpoint")


@pytest.mark.full
def test_runs_end_with_the_same_results_however_they_were_killed() -> None:
    words = [sys.executable, str(SCRIPT), "--kills", "3", "--terms", "1"]
    words += ["--seed", "173"]  # by which each kind is killed in its middle
    words += [word for kind in KINDS for word in ("--only", kind)]
    ran = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) >= 2 and all(line.startswith("same: ") for line in lines)
