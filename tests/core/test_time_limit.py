"""A limit on time: told once more where it was swallowed, and never after the block."""

from __future__ import annotations

import contextlib
import gc
import signal
import time

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


def test_no_garbage_collector_loses_it() -> None:
    """Its callback is where Python handles the signal, and nobody hears what a callback raises."""
    collections = []

    def callback(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    gc.callbacks.append(callback)
    try:
        with limited(0.05, "reading", "read less"):
            with pytest.raises(UsageError, match=TOLD):
                while not collections:
                    [[] for _ in range(100_000)]  # enough for the collector to begin
            assert not collections
    finally:
        gc.callbacks.remove(callback)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    try:
        with limited(0.05, "reading", "read less"):
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_no_limit_and_no_handler_is_left(seconds: float) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with contextlib.suppress(UsageError), limited(0.05, "reading", "read less"):
        reads(seconds)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
    reads(0.2)
