"""Processes of torch.distributed train what one would; one that dies ends the run in one line."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from audit import api
from audit.core.model import ModelFolder
from audit.train.task import Task
from audit.train.train import train_on, workers_for
from tests.train.test_checkpoints import base, task  # noqa: F401

DIVIDED = ("dp_sgd", "dp_ftrl", "s_dpsgd, independent")


def weights(one: Task) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in load_file(one.path).values()])


def ended(tasks: Sequence[Task], processes: int) -> list[torch.Tensor]:
    with workers_for(tasks, 1, processes) as place:
        train_on(place, tasks, lambda label, share: None)
    return [weights(one) for one in tasks]


def test_two_processes_train_what_one_does(base: ModelFolder, tmp_path: Path) -> None:  # noqa: F811
    names = (*DIVIDED, "none")
    alone, together = (
        ended([task(base, name, tmp_path / f"{number}") for name in names], number)
        for number in (1, 2)
    )
    for one, other in zip(alone, together, strict=True):
        assert (one - other).norm() < 1e-4 * one.norm()
    assert torch.equal(alone[-1], together[-1])  # trained by the first alone
    assert not torch.equal(alone[0], together[0])  # sums in another order


@pytest.mark.slow
def test_lost_process_ends_the_run_and_more_go_on(base: ModelFolder, tmp_path: Path) -> None:  # noqa: F811
    one, there = (task(base, "dp_sgd", tmp_path / name) for name in ("lost", "whole"))
    (whole,) = ended([there], 1)

    def killing(label: object, share: float) -> None:
        for member in multiprocessing.active_children():
            member.kill()
            member.join()

    with (
        pytest.raises(RuntimeError, match="has ended; the same command goes on"),
        workers_for([one], 1, 2) as place,
    ):
        train_on(place, [one], killing)
    assert not one.path.exists() and one.checkpoint_path.exists()
    (again,) = ended([one], 3)
    assert (whole - again).norm() < 1e-4 * whole.norm()


@pytest.mark.slow
def test_torchrun_runs_one_audit(tmp_path: Path) -> None:
    words = ["run", "--defense", "dp_sgd", "--attack", "membership", "--no-references"]
    words += ["--format", "json", "--output", "several"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc_per_node=2", "-m", "audit", *words],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    alone = api.run(
        defense="dp_sgd", attack="membership", references=False, format="json",
        output=tmp_path / "alone", workers=1,
    )  # fmt: skip
    several = api.load(tmp_path / "several")
    one, other = (r.releases[0].utility["perplexity"].value for r in (alone, several))
    assert one is not None and other == pytest.approx(one, rel=1e-3)
    assert api.verify(tmp_path / "several").holds
