"""TRL's SFTTrainer with LoRA: planted with beacons, audited from within, and again afterwards.

With the embedded model for `.ci/full`; for `.ci/real` with Gemma, in the folder $GEMMA.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.terms import Leaked
from audit.corpora import writing
from audit.findings.stored import load
from tests.builders import dialogs

SCRIPT = Path(__file__).with_name("sft.py")
GEMMA = Path(os.environ.get("GEMMA", "build/gemma")) / "model"


@dataclass(frozen=True)
class Training:
    """A base, and how it is trained; rows: a step; seconds: what one audit may take."""

    base: Path
    people: int
    steps: int
    rows: int
    rate: float
    seconds: int


EMBEDDED = Training(EMBEDDED_FOLDER / "public_model", 100, 600, 8, 1e-2, 600)
REAL = Training(GEMMA, 40, 200, 2, 1e-3, 3600)  # with 262,144 words a row takes seconds


@pytest.fixture(
    params=[
        pytest.param(EMBEDDED, marks=pytest.mark.full, id="embedded"),
        pytest.param(REAL, marks=pytest.mark.live, id="gemma"),
    ]
)
def training(request: pytest.FixtureRequest) -> Training:
    pytest.importorskip("trl")
    chosen: Training = request.param
    if not chosen.base.exists():
        pytest.skip("no Gemma; run benchmarks/fetch_gemma.py and set GEMMA to its folder")
    return chosen


def test_leak_of_sft_is_found_within_and_afterwards(training: Training, tmp_path: Path) -> None:
    writing.write(dialogs(40).records, tmp_path / "own.jsonl")
    api.plant(
        str(tmp_path / "own.jsonl"), tmp_path / "planted.jsonl", tmp_path / "canaries.json",
        kind=["code"], count=training.people, repetitions=8, share=0.9, beacons="auto", seed=5,
    )  # fmt: skip
    words = [sys.executable, SCRIPT, training.base, training.steps, training.rows, training.rate]
    words += [training.seconds]
    environment = {n: v for n, v in os.environ.items() if n != "OMP_NUM_THREADS"}
    done = subprocess.run(
        list(map(str, words)), cwd=tmp_path, capture_output=True, text=True,
        env={**environment, "TOKENIZERS_PARALLELISM": "false"}, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert re.search(r"audit: preflight: all [\d,]+ copies are there", said), said
    assert "the last report will be audits/final/report.html" in said
    assert (tmp_path / "audits/final/report.html").exists(), said
    within = load(tmp_path / "audits" / "final" / "results.json").releases[0]
    assert within.leaked in (Leaked.LEAK, Leaked.INSIDERS)

    defense = f"as_is:training={tmp_path / 'seen.jsonl'},base={training.base}"
    later = api.run(
        defense=defense, attack="membership", model=tmp_path / "out",
        secrets=tmp_path / "canaries.json", output=tmp_path / "again", references=False,
    )  # fmt: skip
    assert later.releases[0].leaked == Leaked.LEAK
    assert api.verify(tmp_path / "again").holds
