"""Weights that FSDP 2 has sharded are gathered for each audit, whole models and adapters alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from audit.core.embedded import EMBEDDED_FOLDER

SCRIPT = Path(__file__).with_name("sharded_trainer.py")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "lora"])
def test_audits_read_the_weights_of_all_processes(made: Any, tmp_path: Path, how: str) -> None:
    base = EMBEDDED_FOLDER / "public_model"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, str(SCRIPT), str(base), str(made.manifest), str(tmp_path), how],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    name = "model.safetensors" if how == "whole" else "adapter_model.safetensors"
    whole = load_file(tmp_path / "whole" / name)
    for audit in ("step-1", "final"):
        read = load_file(tmp_path / audit / name)
        assert all(torch.equal(read[key], whole[key]) for key in whole)
        tied = read.keys() - whole.keys()
        assert all(torch.equal(read[key], whole["transformer.wte.weight"]) for key in tied)
