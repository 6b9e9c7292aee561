"""Numbers the steps of a run as they are reported, and reports how much of the whole is done."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import final

from audit.core.progress import WHOLE, StepProgress

SILENT = 0.9  # most of a step that is taken for done before it says so


def numbered(label: str, n: int) -> str:
    """Name the nth step of a label: settings of one defense train under the same one."""
    return label if n == 1 else f"{label} ({n})"


def label_of(step: str) -> str:
    """Return the label of a step's name."""
    return re.sub(r" \(\d+\)$", "", step)


@final
class Steps:
    """A StepProgress that reports `3 of 17: LABEL`, and after it the share of the whole run.

    Of steps with one label that go on at once, one is shown: the next begins when it is done.
    """

    def __init__(
        self,
        report: StepProgress,
        expected: Mapping[str, float],
        together: int = 1,
        before: int = 0,
    ) -> None:
        """Start counting. expected: seconds that each step adds; others are not numbered.

        together: steps that go on side by side, for as many times as long as each adds. before:
            steps that an earlier process has done, which are counted and not expected.
        """
        self._before = before
        self._report, self._expected, self._together = report, expected, together
        self._began: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        self._shares: dict[str, float] = {}

    def __call__(self, label: str, share: float) -> None:
        if label not in self._expected:
            self._report(label, share)
            return
        label = self._open(label)
        number = self._before + self._numbers.setdefault(label, len(self._numbers) + 1)
        self._began.setdefault(label, time.monotonic())
        self._shares[label] = max(share, self._shares.get(label, 0.0))
        steps = self._before + len(self._expected)
        self._report(f"{number} of {steps}: {label}", share)
        self._report(WHOLE, self._whole())

    def _open(self, label: str) -> str:
        """Find the first step of a label that is not done, or its last."""
        n = 1
        while self._shares.get(numbered(label, n)) == 1.0:
            if numbered(label, n + 1) not in self._expected:
                break
            n += 1
        return numbered(label, n)

    def _whole(self) -> float:
        total = sum(self._expected.values())
        done = sum(self._expected[label] * self._share(label) for label in self._shares)
        return done / total if total else 1.0

    def _share(self, label: str) -> float:
        """Return the share of a step that is done; by the clock while it has not reported any."""
        if self._shares[label] or not self._expected[label]:
            return self._shares[label]
        seconds = time.monotonic() - self._began[label]
        return min(SILENT, seconds / (self._together * self._expected[label]))
