"""The page on chat data, run as it is written: planted, trained by TRL, audited from within."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.findings.stored import load
from tests import chat
from tests.models.test_chat_template import MARKED

PAGE = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
QUICK = (
    "assistant_only_loss=True, num_train_epochs=4, learning_rate=1e-2, report_to=[], "
    "use_cpu=True, bf16=False, per_device_train_batch_size=8, save_strategy='no', "
    "disable_tqdm=True, max_length=99"
)
LOADED = (
    'model="./llama",',
    "model=AutoModelForCausalLM.from_pretrained('./llama'),\n"
    "    processing_class=AutoTokenizer.from_pretrained('./llama'),",
)
pytestmark = pytest.mark.full


def script(loaded: bool) -> str:
    """The page's Python, at a size for tests; loaded: with a model and its tokenizer given."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert "assistant_only_loss=True" in text and LOADED[0] in text
    text = text.replace("assistant_only_loss=True", QUICK)
    text = "from transformers import AutoModelForCausalLM, AutoTokenizer\n" + text
    return text.replace(*LOADED) if loaded else text


def ran(folder: Path, *words: object) -> str:
    """What a Python process of its own says, in both streams; it must end well."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def trained(folder: Path, turn: str, processes: int = 1, loaded: bool = False) -> str:
    """What a training says in which secrets are planted in these turns; steps are of 8 rows."""
    several = ("-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}")
    chat.gpt2(folder / "llama", MARKED)
    chat.corpus(folder / "chats.jsonl", 40)
    (folder / "train.py").write_text(script(loaded).replace("size=8", f"size={8 // processes}"))
    words = ["plant", "chats.jsonl", "--output", "planted.jsonl", "--manifest", "canaries.json"]
    kinds = ["--kind", "id", "--kind", "code", "--turn", turn, "--seed", "3"]
    ran(folder, "-m", "audit", *words, "--count", "24", "--repetitions", "16", *kinds)
    return ran(folder, *(several if processes > 1 else ()), "train.py")


def verdicts(folder: Path) -> dict[str, str]:
    release: Any = load(folder / "results.json").releases[0]
    assert release.defense == "as_is"
    return {finding.metric: finding.leaked for finding in release.findings}


def test_what_the_assistant_says_is_learned_and_found(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    said = trained(tmp_path, "assistant")
    assert re.search(r"audit: preflight: all \d+ copies are there", said), said
    assert verdicts(tmp_path / "audits/sft/final")["exposure_16_copies"] == "leak"
    command = re.search(r"^audit (run --defense as_is:training=.*)$", PAGE, re.M)
    assert command
    words = command[1].replace("--attack all", "--attack exposure").split()
    ran(tmp_path, "-m", "audit", *words, "--output", "again", "--format", "json")
    assert verdicts(tmp_path / "again")["exposure_16_copies"] == "leak"


def test_what_the_loss_did_not_see_is_inconclusive(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    said = trained(tmp_path, "user", loaded=True)
    assert re.search(
        r"of \d+ planted id copies 0 were trained on.*masked from the loss", said, re.I
    )
    found = verdicts(tmp_path / "audits/sft/final")
    assert set(found.values()) <= {"inconclusive", "not measured"}, found


def test_of_two_processes_one_audits(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    said = trained(tmp_path, "assistant", processes=2)
    assert said.count("audit: preflight: all") == said.count("audit: final: as_is") == 1
    assert verdicts(tmp_path / "audits/sft/final")["exposure_16_copies"] == "leak"
