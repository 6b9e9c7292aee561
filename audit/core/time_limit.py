"""A limit on the time of code that others wrote."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from audit.core.errors import UsageError

T = TypeVar("T")

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


def in_time(do: Callable[[], T], seconds: float, what: str, advice: str) -> T:
    """Run native code, which no signal reaches, in a thread, so that Ctrl-C reaches this one.

    Raises UsageError where it takes longer, or where the library panics. A thread that is given up
    ends with the process.
    """
    ended: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def work() -> None:
        try:
            ended.put((do(), None))
        except BaseException as error:
            ended.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        value, error = ended.get(timeout=seconds)
    except Empty:
        raise UsageError(f"{what} took more than {seconds:g} s; {advice}") from None
    if error is None:
        return value  # type: ignore[no-any-return]
    if isinstance(error, Exception | KeyboardInterrupt | SystemExit):
        raise error
    raise UsageError(f"{what} failed ({error}); {advice}") from None  # a panic of Rust is neither
