"""A small DP-FTRL engine, right as it stands, with a switch for each planted fault."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.accounting.banded import times
from audit.check.engine import Trial
from audit.check.units import Floats
from tests.check.toy import ClippedByRecord, Fault, Rows, Training


class Banded(Training):
    """DP-FTRL by the book; a fault overrides one method."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.column = np.array(trial.column)
        self.groups = self.grouping(0)
        self.draws = self.stream()
        self.past: list[Floats] = []  # rows of C⁻¹Z, the latest first

    def stream(self) -> np.random.Generator:
        return np.random.default_rng([self.trial.seed, 1])

    def grouping(self, key: int) -> Rows:
        """The group of each unit, whatever the others are."""
        return np.array(
            [
                np.random.default_rng([self.trial.seed, key, i]).integers(self.trial.bands)
                for i in range(len(self.units))
            ]
        )

    def batches(self) -> Iterator[Rows]:
        for step in range(self.trial.steps):
            if step and step == self.trial.resume_after:
                self.resume()
            yield np.flatnonzero(self.sampled() & self.turn(step))

    def sampled(self) -> np.ndarray:
        return self.random.random(len(self.units)) < self.trial.sampling_probability

    def turn(self, step: int) -> np.ndarray:
        """Whose turn it is, (N,)."""
        return np.asarray(self.groups == step % self.trial.bands)

    def noise(self, step: int, batch: Rows) -> Floats:
        row = self.deviation * self.draws.standard_normal(sum(self.sizes))
        for band, before in zip(self.column[1:], self.past, strict=False):
            row = row - band * before
        row = row / self.column[0]
        self.past = [row, *self.past][: len(self.column) - 1]
        return np.asarray(row)


class GroupForgotten(Banded):
    def resume(self) -> None:
        self.groups = self.grouping(1)


class TooClose(Banded):
    """One group less than there are bands."""

    def turn(self, step: int) -> np.ndarray:
        return np.asarray(self.groups % (self.trial.bands - 1) == step % (self.trial.bands - 1))


class OnceMore(Banded):
    """The last step reads everybody."""

    def turn(self, step: int) -> np.ndarray:
        last = step == self.trial.steps - 1
        return np.full(len(self.units), True) if last else super().turn(step)


class RowsDrawnAgain(Banded):
    def resume(self) -> None:
        self.draws = self.stream()


class BufferZeroed(Banded):
    def resume(self) -> None:
        self.past = []


class ColumnTooLong(Banded):
    """The square root is cut, and not scaled."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial)
        self.column = self.column / self.column[0]


class NotInverted(Banded):
    """Rows of CZ."""

    def noise(self, step: int, batch: Rows) -> Floats:
        drawn = self.deviation * self.draws.standard_normal(sum(self.sizes))
        self.past = [drawn, *self.past][: len(self.column)]
        return np.asarray(times(self.column, np.array(self.past[::-1]))[-1])


class BandedByRecord(ClippedByRecord, Banded):
    """The records of a user are clipped, each by itself."""


class ShareOfAllUnits(Banded):
    """What is stated as q is B/N; a group is sampled with b̂·B/N."""

    def sampled(self) -> np.ndarray:
        q = min(1.0, self.trial.bands * self.trial.sampling_probability)
        return self.random.random(len(self.units)) < q


PLANTED = (
    Fault("F1", "group forgotten on resume", GroupForgotten, ("K19",)),
    Fault("F2", "participations closer than b̂", TooClose, ("K18", "K19")),
    Fault("F3", "k exceeded", OnceMore, ("K20",)),
    Fault("F4", "rows of Z drawn again on resume", RowsDrawnAgain, ("K21",)),
    Fault("F5", "buffer zeroed on resume", BufferZeroed, ("K21",)),
    Fault("F6", "a column's norm above 1", ColumnTooLong, ("K7",)),
    Fault("F7", "C in place of C⁻¹", NotInverted, ("K9",)),
    Fault("F8", "clipped by record, claimed by user", BandedByRecord, ("K15",)),
    Fault("F9", "accounted with B/N in place of b̂·B/N", ShareOfAllUnits, ("K4",)),
)
