"""A limit on the time of code that others wrote."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from audit.core.errors import UsageError

_AGAIN = 0.5  # seconds until a limit that was swallowed is raised again


@contextlib.contextmanager
def limited(seconds: float, what: str, advice: str) -> Iterator[None]:
    """Raise UsageError where the block takes longer; a regular expression is stopped, too.

    The limit is a signal, which Python has in the main thread alone: elsewhere there is none.
    Meanwhile no garbage is collected: what is raised in a callback of the collector is lost. Where
    something else swallows the error, the signal comes again until the block ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = False

    def stop(number: int, frame: FrameType | None) -> None:
        if not ended:
            raise UsageError(f"{what} took more than {seconds:g} s; {advice}")

    collects = gc.isenabled()
    gc.disable()
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        try:
            yield
        finally:
            ended = True  # no signal interrupts what follows
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if collects:
            gc.enable()
