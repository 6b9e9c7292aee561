"""Writes conversations by a chat template in a process of its own, with limits on time and memory.

A template is anybody's code in a sandbox, which bounds neither. The process reads one conversation
a line, and answers with its text or with why there is none.
"""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from audit.core.errors import UsageError, first_line
from audit.core.safe_path import safe_environment

SECONDS = 20.0  # for one conversation
STARTING = 120.0  # seconds until the process is ready, on a busy machine
MEMORY = 1 << 29  # bytes beyond what the process has once it is ready
LONGEST = 1 << 24  # bytes of an answer


@lru_cache(maxsize=2)
def process_of(source: str, special: str) -> TemplateProcess:
    """Share the process of a template. special: as JSON."""
    return TemplateProcess(source, json.loads(special))


@dataclass
class TemplateProcess:
    """A process that writes conversations by one template; threads take turns.

    special: names and texts of tokens.
    """

    source: str
    special: dict[str, Any]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def written(self, turns: Sequence[dict[str, str]]) -> str:
        """Write a conversation. Raises UsageError where the template does not."""
        with self._turn:
            try:
                answer = self._answer(turns)
            except BaseException:  # an interrupt, too: no later answer may be taken for this one's
                self.close()
                raise
        if "text" not in answer:
            raise UsageError(str(answer.get("why")))
        return str(answer["text"])

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _answer(self, turns: Sequence[dict[str, str]]) -> dict[str, Any]:
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(turns).encode() + b"\n")
            process.stdin.flush()
            line = _line(process.stdout, SECONDS)
        except BrokenPipeError:
            line = b""
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UsageError(f"it took more than {MEMORY >> 20} MB of memory, or ended by itself")
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=safe_environment(),
            start_new_session=True,  # Ctrl-C reaches this process, which ends that one
        )
        weakref.finalize(self, _end, process)
        self._process = process
        assert process.stdin is not None
        first = json.dumps({"source": self.source, "special": self.special})
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(first.encode() + b"\n")
            process.stdin.flush()
        assert process.stdout is not None
        _line(process.stdout, STARTING)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _line(stream: IO[bytes], seconds: float) -> bytes:
    """Read a line as it comes. Raises UsageError after so many seconds without a part of it."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not parts or not parts[-1].endswith(b"\n"):
            if not selector.select(seconds):
                raise UsageError(f"it took more than {seconds:g} s")
            parts.append(stream.read1(1 << 16))  # type: ignore[attr-defined]
            if not parts[-1] or sum(map(len, parts)) > LONGEST:
                break
    return b"".join(parts)


def _serve() -> None:
    """Answer conversations until standard input ends."""
    from transformers.utils.chat_template_utils import render_jinja_template

    given = json.loads(sys.stdin.readline())
    _limit_memory()
    print(flush=True)  # ready
    for line in sys.stdin:
        turns = json.loads(line)
        try:
            written = render_jinja_template(
                conversations=[turns], chat_template=given["source"], **given["special"]
            )
            texts = written[0] if isinstance(written, tuple) else written
            answer = {"text": texts[0]}
        except MemoryError:
            answer = {"why": f"it took more than {MEMORY >> 20} MB of memory"}
        except Exception as error:  # a template is anybody's code
            answer = {"why": first_line(error)}
        print(json.dumps(answer), flush=True)


def _limit_memory() -> None:
    """Bound the address space of this process, where the system says how large it is."""
    with contextlib.suppress(OSError, ValueError):
        sizes = Path("/proc/self/statm").read_text(encoding="ascii").split()
        used = int(sizes[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    _serve()
