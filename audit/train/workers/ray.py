"""Trains tasks on Ray: on this machine, or on a cluster that shares no disk with it.

A task reads the public model, and the weights that it starts from or queries, from Ray's object
store; its own weights come back as bytes. A task whose worker is lost is trained again. Workers
need the same versions of audit, torch and transformers as this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from urllib.parse import urlsplit

from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.progress import StepProgress
from audit.train.task import Task
from audit.train.workers.place import Train, Workers

RETRIES = 3  # how many workers a task may lose
CONNECTIONS = 3  # attempts to connect to a cluster
REACHED_IN = 10.0  # seconds in which a cluster must accept a connection
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


@dataclass(frozen=True)
class Ray(Workers):
    """A connection to Ray.

    scratch: the folder that its workers write to; None: temporary folders, which a killed worker
        leaves behind.
    """

    scratch: Path | None = None

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        import ray

        model = cache(lambda base: ray.put(_files(base)))
        weights = cache(lambda path: ray.put(path.read_bytes()))
        remote = ray.remote(_train_remotely).options(**_needs(tasks[0]), max_retries=RETRIES)
        waiting: dict[Any, Task] = {}
        try:
            for task in tasks:
                # inside a list, Ray sends the reference itself, not the object
                sources = [(path.name, weights(path)) for path in task.sources]
                sent = remote.remote(train, task, [model(task.base)], sources, self.scratch)
                waiting[sent] = task
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                for name, weights_of in ray.get(done).items():  # its own weights last
                    _keep(waiting[done].path.with_name(name), weights_of)
                report(waiting.pop(done).training.label, 1.0)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None


@contextlib.contextmanager
def here() -> Iterator[Ray]:
    """Starts Ray on this machine; one that this process runs already is used and left running.

    Tasks in flight end with a Ray started here, and go on otherwise. They are not cancelled: Ray
    2.60 can abort this process when a running task is cancelled.
    """
    _be_quiet()
    _require_a_token()
    import ray

    if ray.is_initialized():
        yield Ray()
        return
    # Ray's folder is readable by all users; under $TMPDIR its socket paths can get too long
    private = Path(mkdtemp(prefix="audit-", dir="/tmp"))
    try:
        ray.init(
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(private / "ray"),
        )
        yield Ray(private)
    finally:
        ray.shutdown()
        _remove(private)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Ray]:
    """Connects to a cluster through its client server, ray://HOST:PORT. Raises UsageError."""
    _be_quiet()
    import ray

    try:
        _check_listening(address)
        with warnings.catch_warnings(action="ignore"):  # Ray warns of errors that it then raises
            _connect(address)
    except Exception as error:  # Ray raises errors of any class; nothing is trained yet
        raise UsageError(
            f"--workers {address}: the cluster cannot be reached ({_reason(error)}); check that "
            "its client server runs, and that RAY_AUTH_MODE and RAY_AUTH_TOKEN are the cluster's"
        ) from None
    try:
        yield Ray()
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Connects, with retries: the cluster starts a server process for each connection, which may
    fail to start."""
    import ray

    for left in reversed(range(CONNECTIONS)):
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
            return
        except ConnectionError:
            if not left:
                raise
            ray.shutdown()


def _reason(error: Exception) -> str:
    """Shortens an error to one line: its first and, of a traceback from the server, its last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or type(error).__name__


def _be_quiet() -> None:
    """Switches off usage statistics and a warning about CUDA_VISIBLE_DEVICES in later versions."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


def _require_a_token() -> None:
    """Makes Ray require a token: it listens on every interface, and runs code for any client."""
    if "ray" not in sys.modules:  # these are read on import
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _remove(folder: Path) -> None:
    """Removes a folder, with retries: Ray's processes write for a moment after its shutdown."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


def _check_listening(address: str) -> None:
    """Raises OSError where nothing listens; Ray's own attempts would take minutes."""
    place = urlsplit(address)
    socket.create_connection((place.hostname, place.port), timeout=REACHED_IN).close()


def _needs(task: Task) -> dict[str, float]:
    """Lists the cores and GPUs of a task; no more cores than the largest machine has."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = max((machine.get("CPU", 0.0) for machine in machines), default=0.0)
    on_gpu = task.device == "cuda"
    if on_gpu and not any(machine.get("GPU") for machine in machines):
        raise UsageError("the plan's device is cuda, and Ray has no GPU; use --device cpu")
    return {"num_cpus": min(task.threads, cores or task.threads), "num_gpus": float(on_gpu)}


def _files(base: ModelFolder) -> dict[str, bytes]:
    """Reads the files of a model folder that loading needs, by name."""
    paths = [path for pattern in MODEL_FILES for path in base.path.glob(pattern)]
    return {path.name: path.read_bytes() for path in paths}


def _keep(path: Path, weights: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(weights)
    partial.replace(path)


# --- on a worker


def _train_remotely(
    train: Train,
    task: Task,
    model: Sequence[Any],
    sources: Sequence[tuple[str, Any]],
    scratch: Path | None,
) -> dict[str, bytes]:
    """Trains a task on this worker and gives its weights; nothing is left on its disk.

    By name of the file: those of its best step, if any, before its own.
    """
    import ray

    with TemporaryDirectory(prefix="audit-", dir=scratch) as private:
        base, stages = Path(private, "model"), Path(private, "stages")
        base.mkdir()
        stages.mkdir()
        for name, content in ray.get(model[0]).items():
            (base / name).write_bytes(content)
        for name, weights in sources:
            (stages / name).write_bytes(ray.get(weights))
        there = replace(task, base=replace(task.base, path=base), stages=stages)
        if there.key != task.key:
            raise UsageError(
                "a Ray worker has another version of audit, torch or transformers; install the same"
            )
        train(there, lambda label, share: None)
        files = [path for path in (there.best_path, there.path) if path.exists()]
        return {path.name: path.read_bytes() for path in files}
