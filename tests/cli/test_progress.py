"""Progress lines: a label, its share, and the time that is left of the whole run."""

from __future__ import annotations

from typing import Any

import pytest

from audit.cli import progress as module
from audit.core.progress import WHOLE, Remark


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def lines(capsys: Any) -> list[str]:
    return [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]


def test_the_time_left_follows_from_what_is_done(clock: list[float], capsys: Any) -> None:
    """Three times 30 s; the minute before the first share, and that share, say nothing."""
    for done in (0.0, 0.2):
        with module.Progress() as shown:
            clock[0] += 60.0
            shown.report(WHOLE, done)
            clock[0] += 30.0
            shown.report(WHOLE, done + (1 - done) / 4)
            shown.report("1 of 4: none", 1.0)
        assert lines(capsys) == ["1 of 4: none 100% (about 2 min left)"]


def test_nothing_is_said_of_the_time_left_before_enough_is_done(
    clock: list[float], capsys: Any
) -> None:
    with module.Progress() as shown:
        clock[0] = 30.0
        for share in (0.0, 0.01, 1.0):
            shown.report(WHOLE, share)
            shown.report("a", 0.0)
    assert lines(capsys) == ["a", "a", "a"]


def test_the_whole_run_is_no_line_of_its_own(clock: list[float], capsys: Any) -> None:
    with module.Progress() as shown:
        for share in (0.0, 0.5, 1.0):
            shown.report(WHOLE, share)
    assert lines(capsys) == []


def test_a_remark_says_nothing_of_what_is_left(clock: list[float], capsys: Any) -> None:
    with module.Progress() as shown:
        clock[0] = 30.0
        shown.report(WHOLE, 0.5)
        shown.report(Remark("largest user: 5 of 9 tokens"), 0.0)
    assert lines(capsys) == ["largest user: 5 of 9 tokens"]
