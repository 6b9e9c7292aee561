"""The beacons of a run by kind and tier, with all that stands before them in the planted text."""

from __future__ import annotations

from dataclasses import replace

from audit.planting.beacons import Beacon
from audit.prepare.run import Run
from audit.silence.drawn_words import frame_of

ByTier = dict[int, list[Beacon]]  # by the number of users who wrote each, the largest first


def beacons_of(run: Run) -> dict[str, ByTier]:
    """Group the beacons of a manifest by kind, then by tier; empty where this run plants."""
    manifest = run.plan.source.record
    if manifest is None:
        return {}
    frame, kinds = frame_of(run), dict[str, ByTier]()
    for one in sorted(manifest.beacons, key=lambda beacon: -beacon.tier):
        whole = replace(one, prefix=frame + one.prefix)
        kinds.setdefault(one.kind, {}).setdefault(one.tier, []).append(whole)
    return kinds
