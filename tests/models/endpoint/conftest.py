"""A server process that the tests start, and the model that it serves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from audit.core.embedded import EMBEDDED_FOLDER
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights

SERVER = Path(__file__).with_name("server.py")
FOLDER = EMBEDDED_FOLDER / "public_model"


@dataclass(frozen=True)
class Server:
    """The process, and its switches."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def switch(self, **switches: Any) -> None:
        """Sets these switches, all others as they were at the start; forgets what was asked."""
        self._ask(json.dumps(switches).encode())

    @property
    def seen(self) -> dict[str, Any]:
        return self._ask(None)

    def _ask(self, body: bytes | None) -> Any:
        request = Request(f"http://127.0.0.1:{self.port}/switches", data=body)
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that is served: the embedded one, every weight moved a little."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("served") / "finished"
    shutil.copytree(FOLDER, folder)
    draws = torch.Generator().manual_seed(0)
    weights = {
        name: weight + 0.05 * torch.randn(weight.shape, generator=draws)
        for name, weight in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A process that serves this model."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(folder)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
    ) as started:
        assert started.stdout is not None
        yield Server(started, int(started.stdout.readline()))
        started.kill()


@pytest.fixture(scope="session")
def process(finished: Path) -> Iterator[Server]:
    with serving(finished) as server:
        yield server


@pytest.fixture
def server(process: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server as it starts, and an environment in which nothing stands between."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "AUDIT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    process.switch()
    return process


@pytest.fixture(scope="session")
def local(finished: Path) -> CausalLM:
    """The same model, here."""
    folder = describe(str(finished), EMBEDDED_FOLDER)
    return CausalLM(load_weights(folder, "cpu"), load_tokenizer(folder), folder.max_length)
