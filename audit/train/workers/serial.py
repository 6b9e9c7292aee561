"""Tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from audit.train.task import Task
from audit.train.workers.place import Report, Train, Workers


class Serial(Workers):
    """This process."""

    def train(self, train: Train, tasks: Sequence[Task], report: Report) -> None:
        for task in tasks:
            train(task, report)
