"""Lists where a test run's time goes: its dearest tests and fixtures, in wall and CPU seconds.

    TIMES=folder pytest -p tests.times     # each worker writes one file there
    python tests/times.py folder --count 30

CPU seconds are those of the worker and of the processes that it waited for, so a loaded machine
changes them little. A fixture's time does not count for the test that asks for it first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

Spent = tuple[float, float]  # (wall, CPU) seconds


def now() -> Spent:
    """Reads both clocks."""
    own, others = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return time.monotonic(), sum(u.ru_utime + u.ru_stime for u in (own, others))


class Clock:
    """Times tests and fixtures; inner fixtures are taken off what contains them."""

    def __init__(self) -> None:
        folder = Path(os.environ["TIMES"])
        folder.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.file = (folder / f"{worker}.jsonl").open("w", buffering=1, encoding="utf-8")
        self.inner: list[Spent] = []

    def timed(self, kind: str, name: str) -> Iterator[None]:
        """Books what the body takes, less what is booked inside it."""
        start = now()
        self.inner.append((0.0, 0.0))
        try:
            yield
        finally:
            wall, cpu = (b - a for a, b in zip(start, now(), strict=True))
            inside = self.inner.pop()
            self.row(kind, name, wall - inside[0], cpu - inside[1])
            if self.inner:
                outer = self.inner[-1]
                self.inner[-1] = (outer[0] + wall, outer[1] + cpu)

    def row(self, *row: str | float) -> None:
        """Writes a row at once: a run that is cut short leaves what it has timed."""
        self.file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[Any]:
        self.row("import", "before collection", *_since_start())
        return (yield from _passing(self.timed("import", "collection")))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        return (yield from _passing(self.timed("test", item.nodeid)))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        name = f"{fixturedef.baseid or 'builtin'}::{fixturedef.argname}"
        return (yield from _passing(self.timed("fixture", name)))


def _since_start() -> Spent:
    _, cpu = now()
    return cpu, cpu  # a process is busy while it imports


def _passing(clock: Iterator[None]) -> Iterator[Any]:
    """Lets a hook run inside `clock`."""
    next(clock)
    try:
        return (yield)
    finally:
        next(clock, None)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Clock(), "clock")


def table(folder: Path, count: int) -> str:
    """The totals, then the dearest files, tests and fixtures, one a line: wall, CPU, name."""
    files = sorted(folder.glob("*.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    kinds: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for kind, name, wall, cpu in rows:
        for k, n in [(kind, name), ("all", kind), *_of_file(kind, name)]:
            sums = kinds[k].setdefault(n, [0.0, 0.0])
            sums[0] += wall
            sums[1] += cpu
    lines = []
    for kind in ("all", "file", "fixture", "test"):
        lines += ["", f"| {kind} | wall s | CPU s |", "|---|---|---|"]
        dearest = sorted(kinds[kind].items(), key=lambda entry: -entry[1][1])[:count]
        lines += [f"| {name} | {wall:.1f} | {cpu:.1f} |" for name, (wall, cpu) in dearest]
    return "\n".join(lines[1:])


def _of_file(kind: str, name: str) -> list[tuple[str, str]]:
    return [("file", name.split("::")[0])] if kind in ("test", "fixture") else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=30)
    wanted = parser.parse_args()
    print(table(wanted.folder, wanted.count))
