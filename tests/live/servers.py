"""Starts the servers that people run, over a model on this machine.

`tests/live/install.sh` installs each into an environment of its own below $LIVE, since each pins
libraries that the others want in another version. A server whose environment is missing is skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

PATIENCE = 600  # seconds until a server answers for the first time
CONTEXT = 512  # tokens

Words = Callable[[Path, Path, int], list[str | Path]]  # environment, model, port


def transformers(home: Path, model: Path, port: int) -> list[str | Path]:
    words = [home / "bin" / "transformers", "serve", model, "--port", str(port)]
    return [*words, "--device", "cpu", "--dtype", "float32"]


def llama_cpp(home: Path, model: Path, port: int) -> list[str | Path]:
    words = [home / "bin" / "python", "-m", "llama_cpp.server", "--model", model]
    return [*words, "--port", str(port), "--n_ctx", str(CONTEXT), "--logits_all", "true"]


def _longest(model: Path) -> str:
    """As many tokens as asked for here, if the model reads so many."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    reads = config.get("n_positions") or config["max_position_embeddings"]
    return str(min(CONTEXT, reads))


def vllm(home: Path, model: Path, port: int) -> list[str | Path]:
    words = [home / "bin" / "python", "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    words += ["--port", str(port), "--dtype", "float32", "--max-model-len", _longest(model)]
    return [*words, "--generation-config", "vllm", "--enforce-eager"]


COMMANDS: dict[str, Words] = {"transformers": transformers, "llama_cpp": llama_cpp, "vllm": vllm}


@dataclass(frozen=True)
class Live:
    """A server that answers. name: of its model, as requests have to say it."""

    url: str
    name: str


@contextmanager
def serving(kind: str, model: Path) -> Iterator[Live]:
    """Start a server over a folder of weights, or over a GGUF file; stop it at the end."""
    home = Path(os.environ.get("LIVE", "build/live")) / kind
    if not (home / "installed").exists():
        pytest.skip(f"{home}: not installed; run tests/live/install.sh")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = list(map(str, COMMANDS[kind](home, model, port)))
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "DO_NOT_TRACK": "1"}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **quiet},
            start_new_session=True,
        )  # fmt: skip
        try:
            yield _ready(process, Live(f"http://127.0.0.1:{port}/v1", str(model)))
        except TimeoutError:
            log.seek(0)
            pytest.fail(f"{kind} does not answer:\n{log.read()[-3000:]}")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _ready(process: subprocess.Popen[bytes], live: Live) -> Live:
    """Wait for the first answer. Raises TimeoutError where none comes, or the process ends."""
    asked = {"model": live.name, "prompt": "Hello", "max_tokens": 1}
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            answer = httpx.post(f"{live.url}/completions", json=asked, timeout=PATIENCE)
        except httpx.HTTPError:
            time.sleep(1)
            continue
        if answer.status_code == 200:
            return live
        time.sleep(1)
    raise TimeoutError
