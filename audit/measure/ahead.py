"""Attacks several releases at once, in processes of this machine; that changes no result.

A process stores what it measured as stages, where the run then finds it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from audit.core.progress import StepProgress, attacking
from audit.measure.bench import Bench
from audit.measure.release import hold_sessions
from audit.measure.releases import audited_of, public_model
from audit.models.sizes import weights_of
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.train.workers.place import Workers

LARGEST = 1e9  # bytes of weights of a release that two processes may each have in memory


@dataclass(frozen=True)
class _Attacked:
    """One release to attack. bare: its unprotected mixture, which has sessions of its own."""

    bench: Bench
    chosen: Chosen
    bare: bool


def attack_ahead(bench: Bench, place: Workers, report: StepProgress) -> dict[str, float]:
    """Attack the releases side by side where that helps; return the seconds of each by label."""
    run, folder = bench.run, bench.folder
    items = [
        _Attacked(bench, chosen, bare)
        for chosen in run.tasks
        for bare in ((True, False) if chosen in run.mixed else (False,))
    ]
    finished = (folder.path / "results.json").exists()
    if place.at_once == 1 or not possible(run) or finished:
        return {}
    assert folder.key  # made once, before several processes need it
    longest_first = sorted(items, key=lambda one: (-len(run.tasks[one.chosen]), not one.bare))
    return dict(pair for pairs in place.each(_attack, longest_first, report) for pair in pairs)


def possible(run: Run) -> bool:
    """Return whether each process can hold a release: of models trained here, small, on the CPU."""
    plan = run.plan
    external = any(chosen.plugin.external for chosen in plan.defenses)
    members = max((len(tasks) for tasks in run.tasks.values()), default=0)
    shared, own = weights_of(plan.model)
    large = shared + own * (members + 1) > LARGEST
    return plan.device == "cpu" and not external and not large


def _attack(item: _Attacked, report: StepProgress) -> list[tuple[str, float]]:
    """Hold the sessions of one release; an ensemble may have no unprotected mixture."""
    taken = []
    for one in audited_of(item.bench.run, item.chosen, public_model(item.bench.run)):
        if one.bare == item.bare:
            report(attacking(one.label), 0.0)
            began = time.monotonic()
            hold_sessions(item.bench, one)
            taken.append((one.label, time.monotonic() - began))
            report(attacking(one.label), 1.0)
    return taken
