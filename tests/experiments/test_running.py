"""A few claims are run from their command, and give the verdicts that are stored.

Their margins are wide: a model's seeded noise moves with the code that trains it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import page

PROJECT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("claim", ["S1", "P12", "A2"])
def test_a_claim_gives_its_stored_verdict_again(claim: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "experiments", claim, "--output", str(tmp_path)]
    ran = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    stored = json.loads(page.stored_path(claim, "small").read_text(encoding="utf-8"))
    assert f"{claim} at small: {stored['verdict']}" in ran.stdout
    for statement in stored["statements"]:
        assert f"{statement['verdict']}: {statement['says']}" in ran.stdout
