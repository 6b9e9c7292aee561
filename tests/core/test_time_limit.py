"""A limit on time: told once more where it was swallowed, and never after the block."""

from __future__ import annotations

import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from audit.core import time_limit
from audit.core.errors import UsageError
from audit.core.time_limit import limited

TOLD = r"reading took more than 0\.05 s; read less"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "_AGAIN", 0.05)


def reads(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_limit_that_was_swallowed_is_told_again() -> None:
    with pytest.raises(UsageError, match=TOLD), limited(0.05, "reading", "read less"):
        with contextlib.suppress(UsageError):
            reads(5)
        reads(5)
        pytest.fail("nobody stopped it")


@pytest.fixture
def collecting() -> Iterator[Callable[[], None]]:
    """Collects garbage; most of the time goes into a callback, where what is raised is lost."""

    def dawdle(phase: str, info: dict[str, int]) -> None:
        reads(0.2)

    gc.callbacks.append(dawdle)
    yield lambda: (gc.collect(), None)[1]
    gc.callbacks.remove(dawdle)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_the_garbage_collector_loses_is_told_again(collecting: Callable[[], None]) -> None:
    with pytest.raises(UsageError, match=TOLD), limited(0.05, "reading", "read less"):
        collecting()
        reads(5)
        pytest.fail("nobody stopped it")


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_no_limit_and_no_handler_is_left(seconds: float) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with contextlib.suppress(UsageError), limited(0.05, "reading", "read less"):
        reads(seconds)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
    reads(0.2)
