"""Attacks several releases at once, in processes of this machine; that changes no result.

A process stores what it measured as stages, where the run then finds it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from audit.core.progress import StepProgress, attacking
from audit.measure.release import hold_sessions
from audit.measure.releases import audited_of, public_model
from audit.models.sizes import weights_of
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.train.workers.place import Workers

LARGEST = 1e9  # bytes of weights of a release that two processes may each have in memory


@dataclass(frozen=True)
class _Attacked:
    """One release to attack. bare: its unprotected mixture, which has sessions of its own."""

    run: Run
    folder: RunFolder
    reveal: bool
    chosen: Chosen
    bare: bool


def attack_ahead(
    run: Run, folder: RunFolder, reveal: bool, place: Workers, report: StepProgress
) -> dict[str, float]:
    """Attacks the releases side by side where that helps; gives the seconds of each by label."""
    items = [
        _Attacked(run, folder, reveal, chosen, bare)
        for chosen in run.tasks
        for bare in ((True, False) if run.mixes(chosen) else (False,))
    ]
    finished = (folder.path / "results.json").exists()
    if place.at_once == 1 or not possible(run) or finished:
        return {}
    assert folder.key  # made once, before several processes need it
    longest_first = sorted(items, key=lambda one: (-len(run.tasks[one.chosen]), not one.bare))
    return dict(pair for pairs in place.each(_attack, longest_first, report) for pair in pairs)


def possible(run: Run) -> bool:
    """Whether processes can each hold a release: of models trained here, small, and on the CPU."""
    plan = run.plan
    external = any(chosen.plugin.external for chosen in plan.defenses)
    members = max((len(tasks) for tasks in run.tasks.values()), default=0)
    shared, own = weights_of(plan.model)
    large = shared + own * (members + 1) > LARGEST
    return plan.device == "cpu" and not external and not large


def _attack(item: _Attacked, report: StepProgress) -> list[tuple[str, float]]:
    """Holds the sessions of one release; an ensemble may have no unprotected mixture."""
    taken = []
    for one in audited_of(item.run, item.chosen, public_model(item.run)):
        if one.bare == item.bare:
            report(attacking(one.label), 0.0)
            began = time.monotonic()
            hold_sessions(item.run, one, item.folder, item.reveal)
            taken.append((one.label, time.monotonic() - began))
            report(attacking(one.label), 1.0)
    return taken
