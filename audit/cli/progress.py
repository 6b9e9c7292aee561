"""Progress on stderr: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from audit.core.progress import WHOLE, Remark
from audit.core.visible import printed
from audit.results.words import duration

_KNOWN = 0.05  # share of the whole run from which on the rest is estimated


class Progress:
    """A context in which `report(label, share)` shows how far each task is."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._step: str | None = None
        self._whole = 0.0
        self._measured: tuple[float, float] | None = None  # when a share was first known, and which
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            columns = (TextColumn("{task.description}", markup=False), BarColumn())
            left = TextColumn("{task.fields[left]}", markup=False)
            console = Console(stderr=True)
            self._bars = Bars(*columns, TimeElapsedColumn(), left, console=console)
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def report(self, label: str, share: float) -> None:
        """Show the share of task `label` that is done, 0 to 1; a step without a length reports 0.

        The share of the whole run stands beside the other tasks as the time that is left.
        """
        if label == WHOLE:
            self._measured = self._measured or (time.monotonic(), share)
            self._whole = share
            return
        if self._bars is not None and isinstance(label, Remark):
            self._bars.console.print(
                printed(label), markup=False, highlight=False
            )  # above the bars
            return
        if self._bars is not None:
            self._show(label, share)
            return
        now = time.monotonic()
        if share in (0.0, 1.0) or now - self._last > 10:
            self._last = now
            done = f" {share:.0%}" if share else ""
            left = "" if isinstance(label, Remark) else self._left(now)
            line = f"[{now - self._began:5.1f} s] {label}{done}{left}"
            print(printed(line), file=sys.stderr, flush=True)

    def _left(self, now: float) -> str:
        """Estimate the time left from what is done; nothing where that is too little to tell.

        What went before the first share, as planting and the estimate, tells nothing of it.
        """
        began, share = self._measured or (now, 0.0)
        done = self._whole - share
        if not (self._whole < 1 and done > _KNOWN):
            return ""
        left = (now - began) * (1 - self._whole) / done
        return f" (about {duration(left)} left)"

    def _show(self, label: str, share: float) -> None:
        if label not in self._tasks:
            if self._step is not None:  # a step without a length ends where the next begins
                self._bars.update(self._tasks[self._step], completed=1.0, total=1.0)
            self._step = None if share else label
            self._tasks[label] = self._bars.add_task(
                printed(label), total=1.0 if share else None, left=""
            )
        if share:
            self._bars.update(self._tasks[label], completed=share, total=1.0)
        self._bars.update(self._tasks[label], left=self._left(time.monotonic()).strip(" ()"))
