"""Teachers on Ray: only answers come back, the student is the same, a killed run goes on."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.training import Question, Training
from audit.models.loading import describe
from audit.models.seqpate.pseudo_data import PseudoData
from audit.models.seqpate.student import Distillation
from audit.models.seqpate.teachers import SumNoise
from audit.models.training.fine_tuning import Recipe
from audit.results.folder import clean
from audit.train.models import TrainedModels, public_model
from audit.train.task import Task
from audit.train.train import train_all, train_on
from audit.train.workers.choice import open_workers
from audit.train.workers.on_ray import Ray
from audit.train.workers.remote_teachers import RemoteTeachers, answer_path
from tests.train.conftest import silent

RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=64, max_length=32)
LONG = replace(RECIPE, epochs=40)
ROUNDS, TEACHERS = 2, 5
LEARN = Distillation(
    noise=SumNoise(1e-3),
    queries=20,
    population=9,
    pseudo=PseudoData(sentences=12, longest=14),
    warmup=RECIPE,
    recipe=RECIPE,
    rounds=ROUNDS,
    hard_rank=2,
    top_p=None,
    top_k=8,
)
PUBLIC = ("Agent: Dalton Garden.\nCustomer: This is Ann.", "Good morning! My parcel is lost.")
needs_ray = pytest.mark.skipif(util.find_spec("ray") is None, reason="needs the extra ray")


@dataclass(frozen=True)
class Logged(Recipe):
    """Writes down whom it trains."""

    log: str = ""

    def train(self, model: Any, tokenizer: Any, training: Training, *more: Any) -> Any:
        with open(self.log, "a") as log:
            log.write(f"{training.label}\n")
        return super().train(model, tokenizer, training, *more)


def student(stages: Path, recipe: Recipe = RECIPE, **changes: Any) -> Task:
    """Its teachers: five that learn, one of them listed twice, and one that learns nothing."""
    learning = [
        Training(f"teacher {i}", (f"My code is #{i}0718.",) * 3, recipe, i) for i in range(TEACHERS)
    ]
    teachers = (*learning[:2], replace(learning[0], texts=()), *learning[2:], learning[1])
    made = Training("student", PUBLIC, replace(LEARN, **changes), 7, teachers=teachers)
    return Task(made, describe("embedded", EMBEDDED_FOLDER), "cpu", 1, stages)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """The student that this process trains."""
    one = student(tmp_path_factory.mktemp("alone"))
    train_all([one], 1, silent)
    return one


@pytest.fixture(scope="module")
def here() -> Iterator[Any]:
    with open_workers("ray") as place:
        yield place


# --- without Ray


def test_teachers_on_others_come_first(tmp_path: Path) -> None:
    first = Training("first", ("a",), RECIPE, 1)
    second = replace(first, label="second", after=first)
    third = replace(first, label="third", seed=3)
    asks = replace(student(tmp_path).training, teachers=(first, second), after=third)
    one = replace(student(tmp_path), training=asks)
    assert [task.training.label for task in Ray().first(one)] == ["second", "third"]
    assert list(Ray().first(student(tmp_path))) == []


class AskedError(Exception):
    pass


def nobody(question: Question, wanted: Any) -> None:
    raise AskedError([teacher.training.label for teacher in wanted.values()])


def answers_of(one: Task, question: Question) -> list[Any]:
    return [values.tolist() for values in RemoteTeachers(one.teachers, nobody).answers(question)]


class Norm(Question):
    digest = "norm"

    def __call__(self, model: Any) -> Any:
        return sum(weights.double().norm() for weights in model.parameters()).detach()


def test_who_is_here_already_is_asked_here(alone: Task) -> None:
    """In the order of the teachers, with the public model for the one that learned nothing."""
    _, public = public_model(alone.base, alone.device)
    paths = tuple(None if t.idle else t.path for t in alone.teachers)
    expected = [values.tolist() for values in TrainedModels(public, paths).answers(Norm())]
    assert answers_of(alone, Norm()) == expected
    assert len(set(expected)) == TEACHERS + 1 and expected[1] == expected[-1]


def test_stored_answers_are_read_or_named(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from torch import tensor

    one = student(tmp_path)
    with pytest.raises(AskedError, match=r"\['teacher 0', 'teacher 1', 'teacher 2', 'teacher 3'"):
        answers_of(one, Norm())
    for i, teacher in enumerate(t for t in one.teachers if not t.idle):
        save_file({"answer": tensor(float(i))}, answer_path(teacher, "norm"))
    zeroth, first, public, *others = answers_of(one, Norm())
    assert [zeroth, first, *others] == [0.0, 5.0, 2.0, 3.0, 4.0, 5.0] and public > 5
    torn = answer_path(one.teachers[0], "norm")
    torn.write_bytes(torn.read_bytes()[:20])
    with pytest.raises(UsageError, match=r"answer-.*is damaged; remove it to ask"):
        answers_of(one, Norm())
    torn.unlink()
    with pytest.raises(AskedError, match=r"\['teacher 0'\]"):
        answers_of(one, Norm())


# --- on Ray


def received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all that this process gets from Ray, and puts into it."""
    import ray

    sizes: list[int] = []
    get, put = ray.get, ray.put

    def counted(reference: Any) -> Any:
        value = get(reference)
        sizes.append(len(pickle.dumps(value)))
        return value

    def counted_put(value: Any) -> Any:
        sizes.append(len(pickle.dumps(value)))
        return put(value)

    monkeypatch.setattr(ray, "get", counted)
    monkeypatch.setattr(ray, "put", counted_put)
    return sizes


@needs_ray
@pytest.mark.slow
class TestRay:
    @pytest.mark.full
    def test_only_answers_come_back(
        self, here: Any, alone: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes, told = received(monkeypatch), []
        one = student(tmp_path)
        train_all([one], "ray", lambda label, share: told.append(label))
        assert one.path.read_bytes() == alone.path.read_bytes()
        answers = list(tmp_path.glob("answer-*"))
        learnt = {task.counted_path for task in (one, *one.teachers) if not task.idle}
        assert {*tmp_path.glob("*.*")} == {one.path, *learnt, *answers}
        assert len(answers) == ROUNDS * TEACHERS
        assert [told.count(f"teacher {i}") for i in range(TEACHERS)] == [1] * TEACHERS
        public = max(sizes)  # the public model is sent once, nothing comes near it otherwise
        weights = one.path.stat().st_size
        assert public > weights / 2 and sum(sizes) - public < weights / 10

    def test_students_of_a_round_share_what_they_may(self, here: Any, tmp_path: Path) -> None:
        """The same first question to the same teachers is asked once, and they are trained once."""
        import ray

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        told, log = [], tmp_path / "log"
        logged = Logged(1, 1e-3, 64, 32, log=str(log))
        pair = [student(tmp_path, logged), student(tmp_path, logged, noise=SumNoise(2.0))]
        train_on(here, pair, lambda label, share: told.append(label))
        each = [f"teacher {i}" for i in range(TEACHERS)]
        assert sorted(log.read_text("utf-8").split("\n")) == ["", *each]
        assert [told.count(label) for label in each] == [1] * TEACHERS
        assert len(list(tmp_path.glob("answer-*"))) == 3 * TEACHERS
        assert pair[0].path.read_bytes() != pair[1].path.read_bytes()

    def test_an_interrupted_run_asks_the_rest(self, here: Any, alone: Task, tmp_path: Path) -> None:
        def interrupt(label: str, share: float) -> None:
            if len(list(tmp_path.glob("answer-*"))) == 3:
                raise KeyboardInterrupt

        one = student(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            train_all([one], "ray", interrupt)
        kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("answer-*")}
        assert len(kept) == 3 and not one.path.exists()
        train_all([one], "ray", silent)
        assert one.path.read_bytes() == alone.path.read_bytes()
        assert {path: path.stat().st_mtime_ns for path in kept} == kept

    def test_a_lone_process_goes_on_where_ray_was(
        self, here: Any, alone: Task, tmp_path: Path
    ) -> None:
        """And Ray where that was: whose weights are here is not trained again."""
        one, told = student(tmp_path), []
        here_already = one.teachers[0]
        train_all([here_already], 1, silent)
        train_all([one], "ray", lambda label, share: told.append(label))
        assert "teacher 0" not in told and "teacher 1" in told
        assert one.path.read_bytes() == alone.path.read_bytes()
        one.path.unlink()
        train_all([one], 1, silent)
        assert one.path.read_bytes() == alone.path.read_bytes()


RUN = """
import sys
from pathlib import Path
from audit.results.folder import RunFolder
from audit.train.train import train_all
sys.path.insert(0, {folder!r})
from test_teachers_on_ray import LONG, silent, student
folder = RunFolder(Path({run!r}), "a" * 64)
with folder.held({{}}):
    train_all([student(folder.stages, LONG)], "ray", silent)
"""


def started(run: Path) -> subprocess.Popen[bytes]:
    code = RUN.format(folder=str(Path(__file__).parent), run=str(run))
    return subprocess.Popen([sys.executable, "-c", code], start_new_session=True)


def scratches(pid: int) -> set[Path]:
    """The scratch folders that a process holds open; other tests have theirs beside them."""
    held = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            held.add(descriptor.resolve())
    return {path for path in held if path.name.startswith("audit-ray-")}


def wait_until(happened: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (done := happened()) and time.monotonic() < end:
        time.sleep(0.2)
    return bool(done)


def alive(process: Any) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@needs_ray
@pytest.mark.full
@pytest.mark.parametrize("then", ["clean", "next run"])
def test_a_killed_run_leaves_nothing_and_goes_on(tmp_path: Path, then: str) -> None:
    """Killed while teachers train; what it left goes at once, though Ray's processes still end."""
    psutil = pytest.importorskip("psutil")
    stages = tmp_path / "run" / "stages"

    def in_the_middle() -> bool:
        """One teacher has answered and another is at work: there is something to find."""
        walks = (os.walk(folder) for folder in scratches(run.pid))  # what vanishes is no error
        at_work = any("model.safetensors" in files for walk in walks for _, _, files in walk)
        return at_work and any(stages.glob("answer-*"))

    with started(tmp_path / "run") as run:
        try:
            assert wait_until(lambda: run.poll() is not None or in_the_middle(), 300)
            assert run.poll() is None
            children = psutil.Process(run.pid).children(recursive=True)
            (left,) = scratches(run.pid)
        finally:
            os.kill(run.pid, signal.SIGKILL)
    assert len(children) > 2 and left.is_dir()
    if then == "clean":
        assert clean(tmp_path / "run") > 1e6
        assert not stages.exists()
    else:
        answered = {path: path.stat().st_mtime_ns for path in stages.glob("answer-*")}
        with started(tmp_path / "run") as again:
            assert wait_until(lambda: again.poll() is not None or scratches(again.pid), 120)
            others = scratches(again.pid)  # perhaps with the one that it removes
            assert again.wait(300) == 0
        assert not any(other.exists() for other in others)
        alone = student(tmp_path, LONG)
        train_all([alone], 1, silent)
        assert (stages / alone.path.name).read_bytes() == alone.path.read_bytes()
        assert {path: path.stat().st_mtime_ns for path in answered} == answered
    assert wait_until(lambda: not any(map(alive, children)), 150)
    assert not left.exists()
