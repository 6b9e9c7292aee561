"""Trains tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.progress import StepProgress
from audit.train.task import Task
from audit.train.workers.place import Train, Workers


class Serial(Workers):
    """This process."""

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        for task in tasks:
            train(task, report)
