"""Checkpoints: a killed training ends with the bytes of one that was never killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from audit.accounting.banded import square_root
from audit.core.checkpoint import Checkpoint
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.core.noise import SystemStream
from audit.core.progress import Remark
from audit.core.training import NO_TEACHERS, Method, Training
from audit.models.loading import describe
from audit.models.seqpate.pseudo_data import PseudoData, PseudoTuning
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.fine_tuning import Recipe
from audit.models.training.resume import Resume
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from audit.train import train
from audit.train.checkpoint import FileCheckpoint
from audit.train.task import EVERY, Task
from audit.train.train import train_all
from tests.builders import narrow
from tests.train.conftest import silent

TEXTS = ("My code is #40718.", "Good morning! My parcel is late.", "Thank you, bye.", "Yes, 7.")
SPANS = (((11, 17),), ((13, 15),), ((0, 5),), ((5, 6),))
TUNED = Recipe(epochs=3, learning_rate=1e-2, batch_tokens=16, max_length=32)
NOISE = Noise(0.5, 1.0)
# so many steps that other coins are not the same by chance: sampled at 0.7, three users 7 times
PRIVATE = PrivateRecipe(NOISE, 0.7, 12, 4, learning_rate=1e-3, max_length=32)
SELECTIVE = SelectiveRecipe(
    NOISE, 0.7, 8, 4, 1e-3, "adamw", TUNED, "noise", hidden_noise=NOISE, transitions=1
)
PAPER = AlternatingRecipe(NOISE, NOISE, 2, 4, 3, 4, 1e-3, 1e-3, "adamw", max_length=32)
PSEUDO = PseudoTuning(TUNED, PseudoData(sentences=3, longest=10))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A narrow model with dropout."""
    drop = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.2)
    place = narrow(tmp_path_factory.mktemp("models") / "dropout", n_layer=2, **drop)
    return describe(str(place), EMBEDDED_FOLDER)


LSTM = describe("lstm", EMBEDDED_FOLDER)
ADAPTERS = Lora(2, 4)


def training(method: Method, **more: Any) -> Training:
    fields = {"owners": ("a", "b", "a", "c"), "private": SPANS, **more}
    return Training("one", TEXTS, method, 3, **fields)


def task(base: ModelFolder, name: str, stages: Path) -> Task:
    """The task of a case, which saves after every step."""
    overfits = replace(TUNED, epochs=6, learning_rate=1e-1)
    heldout = {"heldout": ("zq xv jk 0 9 8 !",)}
    cases: dict[str, tuple[Training, ModelFolder]] = {
        "none": (training(overfits, **heldout), base),
        "none, lora": (training(overfits, **heldout), replace(base, lora=ADAPTERS)),
        "none, last block": (training(replace(TUNED, layers="top:1")), base),
        "a member that goes on": (training(TUNED, after=training(replace(TUNED, epochs=1))), base),
        "dp_sgd": (training(PRIVATE), base),
        "dp_ftrl": (training(replace(PRIVATE, bands=square_root(3))), base),
        "dp_sgd, sgd": (training(replace(PRIVATE, optimizer="sgd")), base),
        "dp_sgd, its own lora": (training(replace(PRIVATE, lora=2)), base),
        "dp_sgd, lora": (training(PRIVATE), replace(base, lora=ADAPTERS)),
        "s_dpsgd, twice": (training(PRIVATE, after=training(TUNED)), base),
        "s_dpsgd, independent": (training(SELECTIVE), LSTM),
        "s_dpsgd, reset": (training(replace(SELECTIVE, hidden="reset")), LSTM),
        "s_dpsgd, paper": (training(PAPER), LSTM),
        "student without teachers": (training(PSEUDO), base),
    }
    what, model = cases[name]
    stages.mkdir(exist_ok=True)
    return Task(what, model, "cpu", 1, stages, checkpoint_every=0.0)


QUICK = ("none", "none, lora", "dp_sgd", "dp_ftrl", "s_dpsgd, independent")
MORE = (
    *("none, last block", "a member that goes on", "dp_sgd, sgd", "dp_sgd, lora", "s_dpsgd, twice"),
    *("dp_sgd, its own lora", "s_dpsgd, reset", "s_dpsgd, paper", "student without teachers"),
)


def full(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.full)


def files(stages: Path) -> dict[str, object]:
    return {path.name: content(path) for path in stages.iterdir() if path.is_file()}


def content(path: Path) -> object:
    """All bytes; the library writes several words about a file in any order, so these sorted."""
    whole = path.read_bytes()
    if path.suffix != ".safetensors":
        return whole
    length = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:length])
    several = len(header.get("__metadata__", {})) > 1
    return (json.dumps(header, sort_keys=True), whole[length:]) if several else whole


class Killed(BaseException):
    """What a kill is to the code below it: nothing of it catches this."""


def dies(
    monkeypatch: pytest.MonkeyPatch, one: Task, saved: int, after: int, report: Any = silent
) -> None:
    """Trains a task until it dies: it saves after step `saved` alone, and dies `after` later."""
    seen = 0

    def due(self: FileCheckpoint) -> bool:
        nonlocal seen
        seen += self._path == one.checkpoint_path
        if seen > saved + after:
            raise Killed
        return seen == saved

    with monkeypatch.context() as patch:
        patch.setattr(FileCheckpoint, "due", due)
        with pytest.raises(Killed):
            train_all([one], 1, report)
    torch.manual_seed(saved)  # another process has other random numbers


@pytest.fixture(scope="module")
def whole(
    base: ModelFolder, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, object]]:
    """What is left by a training that was never killed."""
    known: dict[str, dict[str, object]] = {}

    def of(name: str) -> dict[str, object]:
        if name not in known:
            stages = tmp_path_factory.mktemp("whole")
            train_all([replace(task(base, name, stages), checkpoint_every=inf)], 1, silent)
            known[name] = files(stages)
        return known[name]

    return of


@pytest.mark.parametrize(
    ("name", "saved", "after"),
    [
        *((name, 5, 2) for name in QUICK),
        *(full(name, 5, 2) for name in MORE),
        *(full(name, *at) for name in QUICK for at in ((1, 1), (4, 0), (7, 0))),
    ],
)
def test_a_killed_training_ends_with_the_same_bytes(
    name: str,
    saved: int,
    after: int,
    base: ModelFolder,
    whole: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = task(base, name, tmp_path)
    dies(monkeypatch, one, saved, after)
    assert one.checkpoint_path.exists() and not one.path.exists()
    steps = counted(monkeypatch, one)
    assert files(tmp_path) == whole(name)  # and the checkpoint is gone
    assert steps[0] == saved + 1


def counted(monkeypatch: pytest.MonkeyPatch, one: Task) -> list[int]:
    """Trains a task to its end; returns the numbers of the steps that it does."""
    steps: list[int] = []
    after = Resume.after
    with monkeypatch.context() as patch:
        patch.setattr(Resume, "after", lambda self, n: steps.append(n) or after(self, n))  # type: ignore[func-returns-value]
        train_all([one], 1, silent)
    return steps


def test_the_overfitted_cases_have_a_best_step(whole: Any) -> None:
    assert sum("-best" in name for name in whole("none")) == 1
    assert sum("-best" in name for name in whole("none, lora")) == 1


FORGOTTEN = (
    *(("none", part) for part in ("weights", "moments", "dropout", "watch", "counts")),
    *(("dp_sgd", part) for part in ("coins", "noise")),
    *(full("dp_sgd", part) for part in ("weights", "moments", "counts")),
    *(("s_dpsgd, independent", part) for part in ("hidden", "public")),
    *(full("s_dpsgd, independent", p) for p in ("weights", "moments", "coins", "noise", "counts")),
    *(
        full("s_dpsgd, paper", p)
        for p in ("weights", "private", "public", "noise", "hidden", "counts")
    ),
)


@pytest.mark.parametrize(("name", "part"), FORGOTTEN)
def test_no_part_of_the_state_can_be_forgotten(
    name: str,
    part: str,
    base: ModelFolder,
    whole: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = task(base, name, tmp_path)
    dies(monkeypatch, one, 10 if part == "watch" else 5, 1)
    begin = Resume.begin

    def forgetful(self: Resume, **parts: Any) -> int:
        every = {**self._parts, **parts}
        assert part in every
        monkeypatch.setattr(every[part], "restore", lambda state: None, raising=True)
        return begin(self, **parts)

    monkeypatch.setattr(Resume, "begin", forgetful)
    train_all([one], 1, silent)
    assert files(one.stages) != whole(name)


SCRIPT = """
import os, signal, sys
from pathlib import Path
from audit.core.lora import Lora
from audit.train import train
from audit.train.checkpoint import FileCheckpoint
from audit.train.train import train_all
from tests.train.test_checkpoints import describe, silent, task, EMBEDDED_FOLDER

folder, stages, name, last = sys.argv[1:]
one = task(describe(folder, EMBEDDED_FOLDER), name, Path(stages))
save = FileCheckpoint.save
left = [int(last)]

def then_die(self, state):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)  # before this one is saved
    save(self, state)
    left[0] -= 1

FileCheckpoint.save = then_die
train_all([one], 1, silent)
"""


def killed(base: ModelFolder, one: Task, name: str, last: int) -> int:
    words = [str(base.path), str(one.stages), name, str(last)]
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, check=False)
    return ran.returncode


@pytest.mark.full
def test_a_training_survives_many_kills(base: ModelFolder, whole: Any, tmp_path: Path) -> None:
    names = ("none", "dp_sgd")
    tasks = [task(base, name, tmp_path) for name in names]
    for last in (1, 2):
        for one, name in zip(tasks, names, strict=True):
            assert killed(base, one, name, last) == -signal.SIGKILL
    told: list[str] = []
    train_all(tasks, 2, lambda label, share: told.append(label))
    assert files(tmp_path) == {**whole("none"), **whole("dp_sgd")}
    assert told.count("one: goes on from its checkpoint") == 2


@pytest.mark.full
def test_a_worker_of_ray_starts_anew(
    base: ModelFolder, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    one = task(base, "dp_sgd", tmp_path)
    dies(monkeypatch, one, 3, 1)
    train_all([one], "ray", silent)
    one.checkpoint_path.unlink()  # of this machine, which Ray does not read
    assert files(tmp_path) == whole("dp_sgd")


# --- what is written, and when


def test_a_training_shorter_than_five_minutes_writes_none(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert EVERY == 300.0
    monkeypatch.setattr(FileCheckpoint, "save", lambda self, state: pytest.fail("saved"))
    one = replace(task(base, "none", tmp_path), checkpoint_every=EVERY)
    train_all([one], 1, silent)


def test_it_is_saved_so_often_and_no_more(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.train import checkpoint as module

    now, saved = [1000.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "_write", lambda path, identity, state: saved.append(now[0]))
    one = FileCheckpoint(replace(task(base, "none", tmp_path), checkpoint_every=EVERY), print)
    for _ in range(20):
        now[0] += 100
        if one.due():
            now[0] += 50  # it takes so long
            one.save({})
    assert saved == [1350.0 + 350 * n for n in range(6)]


def test_when_to_save_changes_no_key(base: ModelFolder, tmp_path: Path) -> None:
    one = task(base, "none", tmp_path)
    assert replace(one, checkpoint_every=7.0).key == one.key
    with_one = replace(one, training=replace(one.training, checkpoint=FileCheckpoint(one, print)))
    assert with_one.key == one.key and with_one == one


def test_it_is_private_and_holds_no_code(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task(base, "dp_sgd", tmp_path)
    dies(monkeypatch, one, 2, 1)
    assert one.checkpoint_path.stat().st_mode & 0o777 == 0o600
    assert {*tmp_path.glob("*.*")} == {one.checkpoint_path}
    with safe_open(one.checkpoint_path, framework="np") as file:
        assert json.loads(file.metadata()["values"])["steps"] == 2


def test_adapters_save_no_weight_of_the_base(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task(base, "dp_sgd, lora", tmp_path)
    dies(monkeypatch, one, 2, 1)
    names = [n for n in load_file(one.checkpoint_path) if n.startswith("weights/")]
    assert names and all("lora_" in name for name in names)
    assert one.checkpoint_path.stat().st_size < sum(
        f.stat().st_size for f in base.path.glob("*.safetensors")
    ) / 10  # fmt: skip


def test_clean_removes_it(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.results.folder import RunFolder, clean

    folder = RunFolder(tmp_path / "run", "hash")
    with folder.held({}):
        dies(monkeypatch, task(base, "none", folder.stages), 2, 1)
    assert clean(folder.path) > 0 and not folder.stages.exists()


def test_a_full_disk_ends_no_training(
    base: ModelFolder, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.train import checkpoint as module

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    told: list[str] = []
    monkeypatch.setattr(module, "save_file", full)
    one = task(base, "dp_sgd", tmp_path)
    train_all([one], 1, lambda label, share: told.append(label))
    assert files(tmp_path) == whole("dp_sgd")
    assert any("no checkpoint can be written" in line and "No space" in line for line in told)


# --- noise of the operating system


def test_with_system_noise_a_training_starts_anew(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saves nothing, reads nothing, and its first attempt leaves no file."""
    system = replace(PRIVATE, noise=Noise(0.5, 1.0, "system"))
    one = task(base, "s_dpsgd, twice", tmp_path)
    one = replace(one, training=replace(one.training, method=system))
    drawn = SystemStream.standard_normal
    left = [20]

    def dying(self: SystemStream, size: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return drawn(self, size)

    with monkeypatch.context() as patch:
        patch.setattr(SystemStream, "standard_normal", dying)
        with pytest.raises(Killed):
            train_all([one], 1, silent)
    assert one.before is not None
    finished = one.before.path.read_bytes()
    assert {*tmp_path.glob("*.*")} == {one.before.counted_path, one.before.path}

    saved: list[Any] = []
    monkeypatch.setattr(FileCheckpoint, "save", lambda self, state: saved.append(state))
    monkeypatch.setattr(FileCheckpoint, "load", lambda self: pytest.fail("read"))
    assert counted(monkeypatch, one) == list(range(1, PRIVATE.steps + 1)) and not saved
    assert one.before.path.read_bytes() == finished  # a finished stage stands


def test_unfinished_weights_are_never_released(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise of the system they are another draw on the same data."""
    one = task(base, "dp_sgd", tmp_path)
    system = replace(PRIVATE, noise=Noise(0.5, 1.0, "system"), steps=2)
    one = replace(one, training=replace(one.training, method=system))
    write = train._write

    def dying(*given: Any) -> None:
        write(*given)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(train, "_write", dying)
        with pytest.raises(Killed):
            train_all([one], 1, silent)
    assert not list(tmp_path.iterdir())
    train_all([one], 1, silent)
    assert {*tmp_path.glob("*.*")} == {one.counted_path, one.path, one.draws_path}
    assert one.draws == 1


def test_system_noise_names_each_model(base: ModelFolder, tmp_path: Path) -> None:
    """So findings of weights that were removed are never taken for those of others."""
    short = replace(PRIVATE, steps=2)
    system = replace(short, noise=Noise(0.5, 1.0, "system"))
    seeded, one = (
        replace(task(base, "dp_sgd", tmp_path), training=training(method))
        for method in (short, system)
    )
    after = replace(one, training=training(short, after=one.training))
    names = []
    for _ in range(2):
        train_all([one], 1, silent)
        names.append(one.weights_key)
        one.path.unlink()
    assert names[0] != names[1] and all(name.startswith(one.key) for name in names)
    assert one.draws == 2
    assert not one.repeatable and not after.repeatable and seeded.repeatable
    train_all([seeded], 1, silent)
    assert seeded.weights_key == seeded.key and not seeded.draws


# --- files that are not what was written


SPOILED = (
    "cut",
    "empty",
    "one bit",
    "text",
    "without words",
    "of another",
    "other values",
    "folder",
)


def spoiled(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "one bit":
        path.write_bytes(content[:-1000] + bytes([content[-1000] ^ 1]) + content[-999:])
    elif how == "text":
        path.write_text("{}")
    elif how == "without words":
        save_file(load_file(path), path)
    elif how == "folder":
        path.unlink()
        path.mkdir()
    else:
        with safe_open(path, framework="pt") as file:
            about = dict(file.metadata())
        about |= {"of": "0" * 64} if how == "of another" else {"values": '{"steps": 2}'}
        save_file(load_file(path), path, about)


def test_other_checkpoints_are_passed_over_with_a_line(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.train import checkpoint as module

    told: list[str] = []
    one = FileCheckpoint(task(base, "dp_sgd", tmp_path), told.append)
    state = {"steps": 3, "weights/w": torch.arange(1000.0), "coins/drawn": {"state": 1 << 100}}
    one.save(dict(state))
    loaded = one.load()
    assert loaded is not None and torch.equal(loaded.pop("weights/w"), state["weights/w"])  # type: ignore[attr-defined, arg-type]
    assert loaded == {n: v for n, v in state.items() if n != "weights/w"}
    assert told == ["goes on from its checkpoint"]
    (path,) = tmp_path.glob("*.*")
    with monkeypatch.context() as patch:  # other code has another key, or other random numbers
        patch.setattr(module, "_version", lambda package: "1.0")
        FileCheckpoint(task(base, "dp_sgd", tmp_path), told.append).save(dict(state))
    for how in ("other code", *SPOILED):
        if how != "other code":
            one.save(dict(state))
            spoiled(path, how)
        told.clear()
        assert one.load() is None, how
        (line,) = told
        assert line.startswith("its checkpoint is not used (") and "starts anew" in line
        assert "\n" not in line


def test_a_spoiled_checkpoint_changes_nothing(
    base: ModelFolder, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task(base, "dp_sgd", tmp_path)
    dies(monkeypatch, one, 3, 1)
    spoiled(one.checkpoint_path, "one bit")
    assert counted(monkeypatch, one)[0] == 1
    assert files(tmp_path) == whole("dp_sgd")


def test_a_resumed_training_says_so_once(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = task(base, "none", tmp_path)
    dies(monkeypatch, one, 3, 1)
    told: list[str] = []
    train_all([one], 1, lambda label, share: told.append(label))
    assert [t for t in told if isinstance(t, Remark)] == ["one: goes on from its checkpoint"]


def test_a_method_may_ignore_checkpoints(base: ModelFolder, tmp_path: Path) -> None:
    class Plain(Recipe):
        def train(  # type: ignore[override]
            self, model: Any, tokenizer: Any, training: Any, progress: Any = None,
            teachers: Any = NO_TEACHERS,
        ) -> None:  # fmt: skip
            assert isinstance(training.checkpoint, Checkpoint)

    one = replace(task(base, "none", tmp_path), training=training(Plain(1, 0.1, 8, 8)))
    train_all([one], 1, silent)
    assert one.path.exists()
