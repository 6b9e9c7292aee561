"""Numbers the steps of a run as they are reported, and says how much of the whole is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from audit.core.progress import WHOLE, StepProgress


@final
class Steps:
    """A StepProgress that reports `3 of 17: LABEL`, and after it the share of the whole run."""

    def __init__(self, report: StepProgress, expected: Mapping[str, float]) -> None:
        """expected: seconds that each step adds to the run; a step not in it goes unnumbered."""
        self._report, self._expected = report, expected
        self._numbers: dict[str, int] = {}
        self._shares: dict[str, float] = {}

    def __call__(self, label: str, share: float) -> None:
        if label not in self._expected:
            self._report(label, share)
            return
        number = self._numbers.setdefault(label, len(self._numbers) + 1)
        self._shares[label] = max(share, self._shares.get(label, 0.0))
        self._report(f"{number} of {len(self._expected)}: {label}", share)
        self._report(WHOLE, self._whole())

    def _whole(self) -> float:
        total = sum(self._expected.values())
        done = sum(self._expected[label] * share for label, share in self._shares.items())
        return done / total if total else 1.0
