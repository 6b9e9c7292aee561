"""Make SIGTERM and SIGHUP interrupt a command as Ctrl-C does, and lose none of them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = 0.05  # seconds of computing until an interrupt is tried again
_INTERRUPTED = 130  # exit code
_received: list[int] = []  # of this process, since `listen`
_running: list[bool] = []  # True: a run is under way, which must be closed


def listen() -> None:
    """Raise KeyboardInterrupt in the main thread at each signal, from now on.

    A signal that this process was started to ignore, as `nohup` does, stays ignored.
    """
    _received.clear()
    _running.clear()
    signal.signal(signal.SIGPROF, _try_again)
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def end_at_once() -> None:
    """Let each signal end this process at once, also in native code: it has nothing to close."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def check() -> None:
    """Raise KeyboardInterrupt again if other code has swallowed it."""
    if _received:
        signal.setitimer(signal.ITIMER_PROF, 0)
        raise KeyboardInterrupt


def checking(report: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Begin a run: report its progress, and raise again there what was swallowed."""
    _running.append(True)

    def checked(label: str, share: float) -> None:
        check()
        report(label, share)

    return checked


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt once; later only from the keyboard: a hang-up often follows a termination."""
    first = not _received
    _received.append(number)
    if first or number == signal.SIGINT:
        _try_again(number, frame)


def _try_again(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; an import would turn it into another error, or swallow it.

    So an import ends this process at once where nothing is under way, and is waited for in a run.
    """
    if not _importing(frame):
        raise KeyboardInterrupt
    if _running:
        signal.setitimer(signal.ITIMER_PROF, _AGAIN)
        return
    with contextlib.suppress(OSError):  # after a hang-up nobody reads on
        os.write(2, b"audit: interrupted; run the same command again\n")
    os._exit(_INTERRUPTED)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
