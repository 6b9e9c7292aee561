"""From one end to the other: planted, trained on by a script that knows nothing of us, audited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora import writing
from audit.findings.stored import load
from audit.results.schema import FindingResult, ReleaseResult

BASE = EMBEDDED_FOLDER / "public_model"
SCRIPT = Path(__file__).with_name("plain_trainer.py")
CLAIM = "0.5:1e-5:user:add_or_remove"
pytestmark = pytest.mark.full


def python(folder: Path, *words: object) -> str:
    """What a Python process of its own says; it must end well."""
    ran = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def place(plain: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with 40 canaries in 16 copies, as `audit plant` leaves it."""
    folder = tmp_path_factory.mktemp("place")
    writing.write(plain.dialogs(20).records, folder / "own.jsonl")
    words = ["plant", "own.jsonl", "--output", "t.jsonl", "--manifest", "m.json", "--seed", "5"]
    python(folder, "-m", "audit", *words, "--count", "40", "--repetitions", "16")
    return folder


@pytest.mark.parametrize("how", ["whole", "lora"])
def test_what_was_memorised_is_found_and_twins_are_silent(place: Path, how: str) -> None:
    python(place, SCRIPT, BASE, "t.jsonl", how, *(["lora"] if how == "lora" else []))
    written = {path.name for path in (place / how).iterdir()}
    assert ("adapter_model.safetensors" in written) == (how == "lora")
    attacks = ("membership", "name_leak", "extraction:searched=0")
    python(
        place, "-m", "audit", "run", "--defense", f"as_is:claim={CLAIM},base={BASE}",
        *(word for attack in attacks for word in ("--attack", attack)),
        "--model", how, "--secrets", "m.json", "--output", f"r-{how}", "--format", "json",
    )  # fmt: skip
    model, public = load(place / f"r-{how}" / "results.json").releases
    assert (model.defense, public.defense) == ("as_is", "public")

    record = found(model, "record_loss_auc")
    assert record.value is not None and record.value > 0.95
    assert record.epsilon_lower is not None and record.epsilon_lower.value > 1  # of a planted user
    assert record.epsilon_lower.unit == "user"
    assert record.claim == "refuted"
    named = found(model, "targeted")
    assert named.k is not None and named.control is not None and named.control.k is not None
    assert named.k / named.n > 2 * named.control.k / named.control.n
    for metric in ("hit_rate", "verbatim"):
        twins = found(model, metric).control
        assert twins is not None and twins.k == 0
    nothing = found(public, "record_loss_auc")
    assert nothing.epsilon_lower is not None and nothing.epsilon_lower.value < 0.5
    assert not [f.metric for f in public.findings if f.claim == "refuted"]


def found(release: ReleaseResult, metric: str) -> FindingResult:
    return next(finding for finding in release.findings if finding.metric == metric)


def test_an_adapter_in_training_is_audited_from_within(place: Path) -> None:
    """The same script, with the callback: the adapter alone is copied, and its base is known."""
    script = SCRIPT.read_text(encoding="utf-8").replace(
        "trainer.train()",
        "from audit.callback import AuditCallback\n"
        'trainer.add_callback(AuditCallback("m.json", "audits", ["membership"], every=400,\n'
        "                                   tokenizer=tokenizer))\n"
        "trainer.train()",
    )
    (place / "watched.py").write_text(script)
    python(place, "watched.py", BASE, "t.jsonl", "watched", "lora")
    names = sorted(path.name for path in (place / "audits").iterdir())
    assert names[0] == "final" and "step-400" in names
    final = load(place / "audits" / "final" / "results.json")
    assert [release.defense for release in final.releases] == ["as_is", "public"]
    bound = found(final.releases[0], "record_loss_auc").epsilon_lower
    assert bound is not None and bound.value > 1
    python(place, "-m", "audit", "report", "audits/final", "--format", "html")
    manifests = [place / "audits" / name / "manifest.json" for name in names]
    plans = [json.loads(path.read_text("utf-8"))["hash"] for path in manifests]
    assert len(set(plans)) == len(plans)
