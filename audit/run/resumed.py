"""Describes what a run finds of itself: trainings that are not done again."""

from __future__ import annotations

from datetime import date

from audit.prepare.run import Run
from audit.results.words import count


def resumed(run: Run) -> list[str]:
    """State how many trainings are resumed, of which days and where; nothing for a new run."""
    paths = {task.path for task in run.wanted if task.path.exists()}
    if not paths:
        return []
    days = sorted({date.fromtimestamp(path.stat().st_mtime).isoformat() for path in paths})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    place = next(iter(paths)).parent
    return [f"resumes {count(len(paths), 'training')} made on {when} in {place}"]
