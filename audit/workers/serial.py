"""Tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.workers import Report, Train, Workers

if TYPE_CHECKING:
    from audit.training import Task


class Serial(Workers):
    """This process."""

    def train(self, train: Train, tasks: Sequence[Task], report: Report) -> None:
        for task in tasks:
            train(task, report)
