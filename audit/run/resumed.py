"""Describes what a run finds of itself: trainings that are not done again."""

from __future__ import annotations

from datetime import date

from audit.prepare.run import Run


def resumed(run: Run, attacks: int) -> tuple[int, list[str]]:
    """Count the trainings that are done already; state of how many steps, of which days and where.

    attacks: the steps that are no trainings. Nothing is stated for a new run.
    """
    every = {task.path for task in run.wanted}
    paths = {path for path in every if path.exists()}
    if not paths:
        return 0, []
    days = sorted({date.fromtimestamp(path.stat().st_mtime).isoformat() for path in paths})
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    place, steps = next(iter(paths)).parent, len(every) + attacks
    return len(paths), [f"{len(paths)} of {steps} steps done before: trained on {when}, in {place}"]
