"""Run what strangers wrote in a process of its own, with limits on time and memory.

Templates and tokenizers are anybody's code. The process is given them once, reads one
question a line, and answers each with a line: with a value, or with why there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import threading
import weakref
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from audit.core.errors import UsageError, first_line
from audit.core.safe_path import safe_environment

STARTING = 120.0  # seconds until the process is ready, on a busy machine
_READY = 1 << 32  # bytes until then
_LONGEST = 1 << 24  # bytes of an answer, and
_ANSWER = 64  # more for each byte of its question
_MEMORY = 512  # more bytes of memory for each byte of a question
_LATER = 5.0  # seconds after which a process ends itself, if its starter is gone
_THREADS = {"MALLOC_ARENA_MAX": "4"}  # each arena takes address space


@dataclass
class LimitedProcess(ABC):
    """A process that runs a module's `serve`; threads take turns.

    setup: what it is given at its start. memory: bytes beyond what it has once it is ready.
    """

    module: str
    setup: Any
    memory: int
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def ask(self, question: Any, seconds: float) -> Any:
        """Return the answer to a question. Raises UsageError, with the reason, without one."""
        with self._turn:
            try:
                answer = self._answer(json.dumps([seconds, question]).encode() + b"\n", seconds)
            except BaseException:  # an interrupt, too: no later answer may be taken for this one's
                self.close()
                raise
        if "value" not in answer:
            raise UsageError(str(answer.get("why")))
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _answer(self, question: bytes, seconds: float) -> dict[str, Any]:
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            line = _line(process.stdout, seconds, _LONGEST + _ANSWER * len(question))
        except BrokenPipeError:
            line = b""
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UsageError(f"it {too_much(self.memory)}, or ended by itself")
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**safe_environment(), **_THREADS},
            start_new_session=True,  # Ctrl-C reaches this process, which ends that one
        )
        weakref.finalize(self, _end_of, os.getpid(), process)
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps([self.setup, self.memory]).encode() + b"\n")
            process.stdin.flush()
        _line(process.stdout, STARTING, _LONGEST)
        return process


def too_much(memory: int) -> str:
    """Word why a process of so many bytes ended."""
    return f"took more than {memory >> 20} MB of memory"


def _end_of(starter: int, process: subprocess.Popen[bytes]) -> None:
    """End a process, in the one that has started it, not in a fork."""
    if os.getpid() == starter:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _line(stream: IO[bytes], seconds: float, longest: int) -> bytes:
    """Read a line as it comes. Raises UsageError after so many seconds without a part of it."""
    parts: list[bytes] = []
    size = 0
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not parts or not parts[-1].endswith(b"\n"):
            if not selector.select(seconds):
                raise UsageError(f"it took more than {seconds:g} s")
            parts.append(stream.read1(1 << 16))  # type: ignore[attr-defined]
            size += len(parts[-1])
            if not parts[-1] or size > longest:
                break
    return b"".join(parts)


def serve(made: Callable[[Any], Callable[[Any], Any]]) -> None:
    """Answer questions until standard input ends. made: makes the answerer from its setup."""
    setup, memory = json.loads(sys.stdin.buffer.readline())
    _end_in(STARTING)
    _limit(_used() + _READY)
    answer = made(setup)
    base = _used() + memory
    _end_in(None)
    print(flush=True)  # ready
    for line in sys.stdin.buffer:
        _limit(base + _MEMORY * len(line))
        seconds, question = json.loads(line)
        _end_in(seconds)
        try:
            reply = {"value": answer(question)}
        except MemoryError:
            reply = {"why": f"it {too_much(memory)}"}
        except BaseException as error:  # it is anybody's code; a panic of Rust is no Exception
            reply = {"why": first_line(error)}
        _end_in(None)
        print(json.dumps(reply), flush=True)


def _end_in(seconds: float | None) -> None:
    """Let the system end this process some seconds after its time, or no more with None.

    Whoever asked ends it first, unless that process was killed. No handler: it would wait for the
    end of what takes too long.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0 if seconds is None else seconds + _LATER)


def _used() -> int:
    """Return the bytes of this process's address space; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except OSError:
        return 0


def _limit(size: int) -> None:
    """Bound the address space of this process, where the system says how large it is."""
    with contextlib.suppress(OSError, ValueError):
        if _used():
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # the user's own, which stays
            soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
