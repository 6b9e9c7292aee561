"""Places: one word each, the same bytes from all, and what is finished stays finished."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.training import NotFiniteError, Training
from audit.models.training.fine_tuning import Recipe
from audit.plan import execution
from audit.plan.execution import parsed
from audit.train import task as task_module
from audit.train.task import Task
from audit.train.train import train_all
from audit.train.workers.choice import open_workers
from tests.refusals import refusals
from tests.train.conftest import silent

RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=16, max_length=32)  # several steps
TEXTS = ("My code is #40718.", "Good morning! My parcel has not arrived.", "Thank you, bye.")
WITH_RAY = util.find_spec("ray") is not None  # not imported: it would not ask for a token then
needs_ray = pytest.mark.skipif(not WITH_RAY, reason="needs the extra ray")


def task(base: ModelFolder, stages: Path, seed: int = 1, **changes: Any) -> Task:
    return Task(
        replace(Training(f"member {seed}", TEXTS, RECIPE, seed), **changes), base, "cpu", 1, stages
    )


def pupils(base: ModelFolder, stages: Path) -> list[Task]:
    """Two that continue the same model, and one that asks it too."""
    first = Training("first", TEXTS[:1], RECIPE, 9)
    pupils = [task(base, stages, seed, after=first) for seed in (1, 2)]
    return [*pupils, task(base, stages, 3, teachers=(first, pupils[0].training))]


def files(stages: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in stages.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def alone(base: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What this process trains, one task after the other."""
    stages = tmp_path_factory.mktemp("alone")
    train_all(pupils(base, stages), 1, silent)
    assert len(files(stages)) == 8  # weights of four, and what they learnt from
    return files(stages)


# --- words


@needs_ray
def test_workers_are_a_number_or_ray() -> None:
    for word in ("ray", "ray://head:10001", "ray://10.0.0.7:1", "ray://[::1]:80"):
        assert parsed(word) == word
    for number in (0, 1, 17, 9_999):
        assert parsed(number) == parsed(str(number)) == number


def test_any_other_word_is_refused() -> None:
    words = (
        *(-1, "-1", "1.5", "", "many", "Ray", "ray:", "ray://", "ray://head", "ray://head:"),
        *("ray://:1", "ray://head:port", "ray://head:1/x", "ray://a b:1", "http://head:1", "²"),
    )
    refusals(parsed, [(word, f"--workers is {word}; it must be a number") for word in words])
    refusals(parsed, [(10_000, "--workers is 10000"), (10**400, "it must be at most 9,999")])
    with pytest.raises(UsageError, match="--workers is ray\n"):
        parsed("ray\n")


def test_without_ray_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "find_spec", lambda name: None)
    extra = "'llm-audit[ray]'"
    refusals(parsed, [(w, (f"--workers {w} needs", extra)) for w in ("ray", "ray://head:10001")])
    assert parsed(2) == 2


# --- processes of this machine


def on_a_gpu(base: ModelFolder, stages: Path, count: int) -> list[Task]:
    return [replace(task(base, stages, i), device="cuda") for i in range(count)]


def free_memory(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(size), 1 << 40))


@pytest.mark.parametrize("many", [False, True])
def test_a_full_gpu_trains_in_this_process(
    base: ModelFolder, tmp_path: Path, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_memory(monkeypatch, 1.5e9)
    tasks = on_a_gpu(base, tmp_path, 2) if many else [task(base, tmp_path)]
    seen: list[Task] = []
    with open_workers(2) as place:
        place.train(lambda one, report: seen.append(one), tasks, silent)
        assert not place.executor._processes  # type: ignore[attr-defined]
    assert seen == tasks


def test_a_gpu_holds_as_many_as_its_memory(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model needs little more than its process."""
    from audit.train.workers.pool import fitting_on_the_gpu

    tasks = on_a_gpu(base, tmp_path, 3)
    large = [replace(t, base=replace(base, parameters=10**9)) for t in tasks]
    for gigabytes, least, most in ((1, 1, 1), (5, 2, 4), (140, 90, 130)):
        free_memory(monkeypatch, gigabytes * 1e9)
        assert least <= fitting_on_the_gpu(tasks) <= most
        assert fitting_on_the_gpu(large) == max(1, int(gigabytes // 24))


def test_in_flight_tasks_fit_the_gpu(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads in the place of processes; every task is trained, at most two at a time."""
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    from audit.train.workers import pool

    monkeypatch.setattr(pool, "fitting_on_the_gpu", lambda tasks: 2)
    monkeypatch.setattr(pool, "_reports", SimpleQueue())
    flying, highest, trained = [], [0], []

    def train(one: Task, report: Any) -> None:
        flying.append(one)
        highest[0] = max(highest[0], len(flying))
        time.sleep(0.02)
        trained.append(one)
        flying.remove(one)

    tasks = on_a_gpu(base, tmp_path, 7)
    with ThreadPoolExecutor(8) as executor:
        pool.Pool(executor, SimpleQueue(), 8).train(train, tasks, silent)  # type: ignore[arg-type]
    assert highest == [2]
    assert sorted(t.training.seed for t in trained) == list(range(7))


@pytest.mark.gpu
def test_processes_sharing_a_gpu_train_alike(base: ModelFolder, tmp_path: Path) -> None:
    """To rounding: some of CUDA's sums have no fixed order."""
    import torch
    from safetensors.torch import load_file

    places = [tmp_path / name for name in ("one", "four")]
    for place, workers in zip(places, (1, 4), strict=True):
        place.mkdir()
        train_all(on_a_gpu(base, place, 4), workers, silent)
    for one in on_a_gpu(base, places[0], 4):
        alone = load_file(one.path)
        shared = load_file(places[1] / one.path.name)
        assert all(torch.allclose(alone[n], shared[n], atol=1e-4) for n in alone)


def test_workers_0_is_one_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.train.workers import choice
    from audit.train.workers.pool import Pool
    from audit.train.workers.serial import Serial

    for workers, cores, kind, most in ((1, 8, Serial, 1), (0, 1, Serial, 1), (0, 6, Pool, 6)):
        monkeypatch.setattr(choice, "cores", lambda cores=cores: cores)
        with open_workers(workers) as place:
            assert type(place) is kind
            assert not isinstance(place, Pool) or place.executor._max_workers == most  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_pool_gives_this_processs_bytes(
    base: ModelFolder, tmp_path: Path, alone: dict[str, bytes]
) -> None:
    with open_workers(8) as place:
        first, *_ = pupils(base, tmp_path)
        assert first.before is not None
        from audit.train.train import _train

        place.train(_train, [first.before], silent)
        place.train(_train, pupils(base, tmp_path)[:2], silent)
        assert len(place.executor._processes) == 2  # type: ignore[attr-defined]
    train_all(pupils(base, tmp_path), 2, silent)
    assert files(tmp_path) == alone
    assert len(set(alone.values())) == 8  # and seeds and sources do something


@pytest.mark.slow
def test_a_workers_error_ends_the_pool(base: ModelFolder, tmp_path: Path) -> None:
    broken = replace(base, path=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="nowhere"):
        train_all([task(broken, tmp_path, seed) for seed in (1, 2)], 2, silent)
    assert threading.active_count() < 10


KILLED = """
import os, signal
from audit.train.workers.pool import pool

if __name__ == "__main__":
    with pool(2) as place:
        for _ in range(2):
            place.executor.submit(print)
        print(*place.executor._processes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, str(tmp_path / "killed.py")]
    # what it says ends when the last process that could say something, a worker too, has ended
    ran = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)
    assert ran.returncode == -signal.SIGKILL and len(ran.stdout.split()) == 2


@dataclass
class Interrupt:
    """Hears reports, and interrupts when so many tasks are finished."""

    after: int

    def __call__(self, label: str, share: float) -> None:
        self.after -= share == 1
        if self.after == 0:
            raise KeyboardInterrupt


LONG = replace(RECIPE, epochs=8)


def interrupted(base: ModelFolder, stages: Path, workers: int | str) -> None:
    """An interrupt after 3 of 8 loses what is in flight; a second run does the rest."""
    tasks = [task(base, stages, seed, method=LONG) for seed in range(8)]
    with pytest.raises(KeyboardInterrupt):
        train_all(tasks, workers, Interrupt(3))
    time.sleep(1)  # whoever would still be at work would be found out
    kept = {one.path.name: one.path.read_bytes() for one in tasks if one.path.exists()}
    assert 3 <= len(kept) <= 6
    finished: list[str] = []
    train_all(tasks, workers, lambda label, share: finished.extend([label] * (share == 1)))
    assert len(finished) == 8 - len(kept)
    ends = files(stages)
    assert {name: ends[name] for name in kept} == kept
    assert {one.path.name for one in tasks} <= set(ends)


@pytest.mark.slow
def test_an_interrupted_process_goes_on_where_it_was(base: ModelFolder, tmp_path: Path) -> None:
    interrupted(base, tmp_path, 1)


@pytest.mark.slow
def test_an_interrupted_pool_loses_flights_only(base: ModelFolder, tmp_path: Path) -> None:
    interrupted(base, tmp_path, 2)


# --- Ray, on this machine


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Ray of this machine, which later ones find running."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("workers")))
        with open_workers("ray") as place:
            yield place
        assert not place.scratch.exists()  # type: ignore[attr-defined]


@needs_ray
@pytest.mark.slow
class TestRay:
    def test_ray_gives_this_processs_bytes(
        self, here: Any, base: ModelFolder, tmp_path: Path, alone: dict[str, bytes], capfd: Any
    ) -> None:
        told: list[tuple[str, float]] = []
        train_all(pupils(base, tmp_path), "ray", lambda label, share: told.append((label, share)))
        assert files(tmp_path) == alone
        done = sorted(label for label, share in told if share == 1)
        assert done == ["first", "member 1", "member 2", "member 3"]
        assert capfd.readouterr() == ("", "")

    @pytest.mark.full
    def test_a_lost_worker_costs_one_task_some_time(
        self, here: Any, base: ModelFolder, tmp_path: Path
    ) -> None:
        import ray

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        died = tmp_path / "died"
        stages = tmp_path / "stages"
        stages.mkdir()
        mortal = [task(base, stages, seed, method=Mortal(1, 1e-3, 16, 32, died=str(died)))
                  for seed in (1, 2)]  # fmt: skip
        train_all(mortal, "ray", silent)
        assert died.exists()
        there = files(stages)
        for one in mortal:
            one.path.unlink()
        train_all(mortal, 1, silent)
        assert files(stages) == there and len(there) == 4  # weights and counts of both

    def test_an_error_is_the_one_that_was_raised(
        self, here: Any, base: ModelFolder, tmp_path: Path
    ) -> None:
        steep = replace(RECIPE, learning_rate=1e30)
        with pytest.raises(NotFiniteError, match="member 1: the loss is nan"):
            train_all([task(base, tmp_path, method=steep)], "ray", silent)
        assert files(tmp_path) == {}

    def test_workers_with_another_torch_are_refused(
        self, here: Any, base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = metadata.version
        monkeypatch.setattr(task_module, "version", lambda n: "9.9" if n == "torch" else real(n))
        with pytest.raises(UsageError, match="another version of audit, torch or"):
            train_all([task(base, tmp_path)], "ray", silent)

    def test_a_missing_gpu_is_refused(
        self, here: Any, base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import ray

        cores_only = [{"Alive": True, "Resources": {"CPU": 2.0}}]
        monkeypatch.setattr(ray, "nodes", lambda: cores_only)
        with pytest.raises(UsageError, match="Ray has no GPU"):
            train_all([replace(task(base, tmp_path), device="cuda")], "ray", silent)

    def test_more_threads_than_cores_are_trained(
        self, here: Any, base: ModelFolder, tmp_path: Path
    ) -> None:
        many = replace(task(base, tmp_path), threads=2 * (os.cpu_count() or 1))
        train_all([many], "ray", silent)
        assert many.path.exists()

    def test_nothing_is_left_where_it_was_trained(
        self, here: Any, base: ModelFolder, tmp_path: Path
    ) -> None:
        from audit.train.train import _train

        for place, folder in (
            (here, here.scratch),
            (type(here)(), Path(os.environ["TMPDIR"])),
        ):
            abandoned = folder / "audit-ray-0123456789abcdef"  # as a lost worker leaves it
            abandoned.mkdir()
            place.train(_train, [task(base, tmp_path)], silent)
            assert not list(folder.glob("audit-*"))
        assert here.scratch.stat().st_mode & 0o077 == 0

    def test_an_interrupt_loses_only_what_was_in_flight(
        self, here: Any, base: ModelFolder, tmp_path: Path
    ) -> None:
        interrupted(base, tmp_path, "ray")


@dataclass(frozen=True)
class Mortal(Recipe):
    """Takes its process with it, in the middle of a training, once."""

    died: str = ""

    def train(self, model: Any, tokenizer: Any, training: Any, progress: Any = None,
              teachers: Any = ()) -> None:  # fmt: skip
        def die(share: float) -> None:
            if share > 0.4 and not Path(self.died).exists():
                Path(self.died).touch()
                os.kill(os.getpid(), signal.SIGKILL)

        Recipe.train(self, model, tokenizer, training, die)


# --- Ray, on a cluster


@needs_ray
def test_an_absent_cluster_is_refused(base: ModelFolder, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError, match="cannot be reached") as error:
        train_all([task(base, tmp_path)], f"ray://127.0.0.1:{free_port()}", silent)
    assert time.monotonic() - began < 20
    assert "\n" not in str(error.value)


def free_port() -> int:
    """Below those that Ray's own parts are given by the system or by Ray."""
    for port in random.sample(range(24_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("no port is free")


CLIENT = """
import sys
from pathlib import Path
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.training import Training
from audit.models.loading import describe
from audit.train.train import train_all
sys.path.insert(0, {folder!r})
from test_teachers_on_ray import student
from test_workers import pupils, silent
train_all(pupils(describe("embedded", EMBEDDED_FOLDER), Path({stages!r})), {address!r}, silent)
asking = [student(Path({stages!r}, name)) for name in ("there", "here")]
for one, place in zip(asking, ({address!r}, 1)):
    one.stages.mkdir()
    train_all([one], place, silent)
there, here = (one.path.read_bytes() for one in asking)
assert there == here and not asking[0].teachers[0].path.exists()
"""


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("deaths", [0, 2, 3])
def test_a_dying_server_is_asked_again(deaths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.train.workers.ray import _require_a_token, cluster

    _require_a_token()  # before it is imported, for the tests that follow
    import ray

    tried: list[str] = []

    def init(address: str, **options: Any) -> None:
        tried.append(address)
        if len(tried) <= deaths:
            raise ConnectionAbortedError("Initialization failure from server")

    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"ray://127.0.0.1:{listening.getsockname()[1]}"
        if deaths == 3:
            with pytest.raises(UsageError, match="cannot be reached"), cluster(address):
                pass
        else:
            with cluster(address):
                pass
    assert tried == [address] * min(3, deaths + 1)


@needs_ray
@pytest.mark.full
def test_a_cluster_gives_the_same_bytes(tmp_path: Path, alone: dict[str, bytes]) -> None:
    import tempfile

    port, client_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(dir="/tmp") as private:  # a socket's path must be short
        stages = Path(private, "stages")
        stages.mkdir()
        environment = {
            **os.environ, "TMPDIR": private, "HOME": private, "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64,
            "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "120",  # 30 are few on crowded cores
        }  # fmt: skip
        words = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *(f"--port={port}", f"--ray-client-server-port={client_port}", "--num-cpus=2"),
            *("--include-dashboard=false", f"--temp-dir={private}/ray"),
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(words, env=environment, **quiet) as head:  # type: ignore[call-overload]
            try:
                wait_for(client_port)
                code = CLIENT.format(
                    folder=str(Path(__file__).parent), stages=str(stages),
                    address=f"ray://127.0.0.1:{client_port}",
                )  # fmt: skip
                done = subprocess.run(
                    [sys.executable, "-W", "error", "-c", code], env=environment, timeout=1200,
                    capture_output=True, encoding="utf-8",
                )  # fmt: skip
                assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
                for name in ("there", "here"):
                    shutil.rmtree(stages / name)
                assert files(stages) == alone
            finally:
                head.terminate()
                head.wait(300)
        assert not list(Path(private).glob("audit-*"))  # nothing is left on the workers


def wait_for(port: int) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"nobody listens on {port}")
