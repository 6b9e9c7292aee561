"""Runs of every kind end with the same results, whenever they were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "kills.py"


@pytest.mark.slow
def test_runs_of_every_kind_end_with_the_same_results_however_they_were_killed() -> None:
    words = [sys.executable, str(SCRIPT), "--kills", "6", "--terms", "3", "--seed", "1"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) >= 3 and all(line.startswith("same: ") for line in lines)
