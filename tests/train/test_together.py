"""Processes of torch.distributed train what one would; one that dies ends the run in one line."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from audit import api
from audit.core.errors import UsageError
from audit.core.files import read_json
from audit.core.model import ModelFolder
from audit.core.processes import Processes
from audit.train.task import Task
from audit.train.train import _train, train_on, workers_for
from audit.train.workers import together
from audit.train.workers.serial import Serial
from tests.models.training.in_threads import in_threads
from tests.train.conftest import silent
from tests.train.test_checkpoints import base, task  # noqa: F401

DIVIDED = ("dp_sgd", "dp_ftrl", "s_dpsgd, independent")


def weights(one: Task) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in load_file(one.path).values()])


def ended(tasks: Sequence[Task], processes: int) -> list[torch.Tensor]:
    with workers_for(tasks, 1, processes) as place:
        train_on(place, tasks, lambda label, share: None)
    return [weights(one) for one in tasks]


@pytest.mark.slow
def test_two_processes_train_what_one_does(base: ModelFolder, tmp_path: Path) -> None:  # noqa: F811
    names = (*DIVIDED, "none")
    alone, several = (
        ended([task(base, name, tmp_path / f"{number}") for name in names], number)
        for number in (1, 2)
    )
    for one, other in zip(alone, several, strict=True):
        assert (one - other).norm() < 1e-4 * one.norm()
    assert torch.equal(alone[-1], several[-1])  # trained by the first alone
    assert not torch.equal(alone[0], several[0])  # sums in another order
    counts = [learnt(tmp_path / number) for number in ("1", "2")]
    assert counts[0] == counts[1] and len(counts[0]) == len(names)


def learnt(stages: Path) -> dict[str, object]:
    """How often each token of each text was learnt, by training."""
    return {path.name: read_json(path)["texts"] for path in stages.glob("counted-*.json")}


@pytest.mark.slow
@pytest.mark.parametrize("sharded", [False, True])
def test_lost_process_ends_the_run_and_more_go_on(
    base: ModelFolder,  # noqa: F811
    tmp_path: Path,
    sharded: bool,
) -> None:
    name = "dp_sgd, lora" if sharded else "dp_sgd"
    one, there = (task(base, name, tmp_path / folder) for folder in ("lost", "whole"))
    (whole,) = ended([there], 1)

    def killing(label: object, share: float) -> None:
        for member in multiprocessing.active_children():
            member.kill()
            member.join()

    with (
        pytest.raises(RuntimeError, match="has ended; the same command goes on"),
        workers_for([one], 1, 2, sharded) as place,
    ):
        train_on(place, [one], killing)
    assert not one.path.exists() and one.checkpoint_path.exists()
    (again,) = ended([one], 3)
    assert (whole - again).norm() < 1e-4 * whole.norm()


TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc_per_node=2"]
ACCELERATE = ["accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1"]
PLAIN = ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "lora"),
    [(TORCHRUN, None), ([*ACCELERATE, *PLAIN], "r=2")],
    ids=["torchrun", "accelerate, sharded"],
)
def test_a_launcher_runs_one_audit(launcher: list[str], lora: str | None, tmp_path: Path) -> None:
    pytest.importorskip(launcher[0].partition(".")[0])
    words = ["run", "--defense", "dp_sgd", "--attack", "membership", "--no-references"]
    words += ["--format", "json", "--output", "several"]
    words += ["--lora", lora, "--sharded"] if lora else []
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "-m", "audit", *words],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    alone = api.run(
        defense="dp_sgd", attack="membership", references=False, format="json",
        output=tmp_path / "alone", workers=1, lora=lora,
    )  # fmt: skip
    several = api.load(tmp_path / "several")
    one, other = (r.releases[0].utility["perplexity"].value for r in (alone, several))
    assert one is not None and other == pytest.approx(one, rel=1e-3)
    assert api.verify(tmp_path / "several").holds


def leaves(given: object, report: object, teachers: object, processes: Processes) -> None:
    """What a process does that is killed after the others were told that it is there."""
    processes.every(lambda: [])
    os._exit(1)


@pytest.mark.slow
def test_process_lost_before_blocks_are_divided_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.train.workers.sharded.MEETING", timedelta(seconds=1))
    with together.together(2, nullcontext(Serial()), True) as place:
        assert isinstance(place, together.Together)
        place.group.first(lambda: (leaves, None, False))
        with pytest.raises(together.LostError):
            together._holding(place.group, True).hold(lambda device: None, "cpu")


def ends(rank: int, number: int, place: str) -> None:
    """What a process does that is killed while it starts."""


@pytest.mark.slow
def test_process_that_is_lost_while_it_starts_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_member", ends)
    with pytest.raises(together.LostError, match="the same command"), together.started(2):
        pytest.fail("they have not met")


class Beside(Processes):
    """One of two processes. other: what the other says at the end."""

    def __init__(self, rank: int, *other: str) -> None:
        self.rank, self.number, self.other = rank, 2, other

    def first(self, do: Callable[[], Any]) -> Any:
        return do()

    def every(self, do: Callable[[], Sequence[Any]]) -> list[Any]:
        return [*do(), *self.other]

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        return None


def test_different_weights_are_an_error(base: ModelFolder, tmp_path: Path) -> None:  # noqa: F811
    one = task(base, "none", tmp_path)
    with pytest.raises(RuntimeError, match="ended with different weights"):
        _train(one, lambda label, share: None, None, Beside(0, "other weights"))
    assert not one.path.exists()


def test_another_frozen_base_in_one_process_is_refused(
    base: ModelFolder,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Adapters alone would be equal in all of them."""
    place = tmp_path / "there"
    shutil.copytree(base.path, place)
    weights = load_file(place / "model.safetensors")
    weights["transformer.ln_f.weight"][0] += 1.0
    save_file(weights, place / "model.safetensors", {"format": "pt"})
    one = task(base, "dp_sgd, lora", tmp_path / "stages")
    tasks = [one, replace(one, base=replace(one.base, path=place))]

    def refused(processes: Processes) -> bool:
        with pytest.raises(UsageError, match="process 1 has another model in"):
            _train(tasks[processes.rank], silent, None, processes)
        return True

    assert in_threads(2, refused) == [True, True] and not one.path.exists()


def test_the_first_alone_writes(base: ModelFolder, tmp_path: Path) -> None:  # noqa: F811
    for rank in (1, 0):
        one = task(base, "dp_sgd", tmp_path)
        _train(one, lambda label, share: None, None, Beside(rank))
        assert any(path.is_file() for path in tmp_path.iterdir()) == (rank == 0)


NOBODY_COMES = """
from datetime import timedelta
from torch.distributed import FileStore
from audit.train.workers import together
try:
    together._meet(timedelta(seconds=1), store=FileStore("store", 2), rank=0, world_size=2)
except together.LostError:
    print("lost")
"""


@pytest.mark.slow
def test_first_that_nobody_meets_ends(tmp_path: Path) -> None:
    words = [sys.executable, "-c", NOBODY_COMES]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout == "lost\n", ran.stderr


class TwoWordsError(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} {other}")


def refuses(task: object, report: object, teachers: object, processes: Processes) -> None:
    """A training that only the second process refuses."""

    def own() -> list[int]:
        if processes.rank:
            raise TwoWordsError("bad", "data")
        return []

    processes.every(own)


@pytest.mark.slow
def test_error_of_another_process_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    opened = together.together(2, nullcontext(Serial()))
    with pytest.raises(RuntimeError, match="TwoWordsError: bad data"), opened as place:
        assert isinstance(place, together.Together)
        try:
            place._divided(refuses, None, silent)  # type: ignore[arg-type]
        finally:
            (member,) = multiprocessing.active_children()
            member.join(30)
    assert "Error" not in capfd.readouterr().err


def listening() -> set[str]:
    """The addresses that this process listens to, in hexadecimal."""
    every = list(Path("/proc/self/fd").iterdir())
    own = {os.readlink(one) for one in every if one.is_symlink()}
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    ]
    return {word[1] for word in lines if word[3] == "0A" and f"socket:[{word[9]}]" in own}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_they_listen_to_this_machine_and_may_be_lost_when_all_is_trained() -> None:
    with together.together(2, nullcontext(Serial())):
        assert {address.partition(":")[0] for address in listening()} <= {"0100007F"}
        for member in multiprocessing.active_children():
            member.kill()
            member.join()
    assert together.INTERFACE not in os.environ
