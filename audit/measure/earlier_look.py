"""The look before this one at the same coins: which tosses of them have crossed a limit by then.

docs/methods/looks.md, "Coins that are tossed again for all looks".
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from audit.core.errors import UsageError
from audit.measure import evidence_file
from audit.measure.evidence_file import EvidenceFile
from audit.prepare.run import Run
from audit.results.folder import run_record
from audit.statistics.retossed import Crossed


def check(run: Run) -> None:
    """Raise UsageError where the look before is none at the same coins, tossed the same way."""
    if run.plan.after is None:
        return
    folder, here = run.plan.after.folder, run.planted.coins
    there, record = _read(folder), run_record(folder)
    if list(there.coins.present.values()) != list(here.present.values()):
        raise UsageError(f"{folder}: is a look at other coins; give --after a look at these")
    if there.family != run.family:
        raise UsageError(
            f"{folder}: makes {there.family.tests:,} tests over {there.family.looks:,} looks, and "
            f"this one {run.family.tests:,} over {run.family.looks:,}; give both the same attacks "
            "and --looks, or leave --after out"
        )
    if any(t.after.looks >= run.plan.looks for r in there.releases if (t := r.tosses) is not None):
        raise UsageError(f"{folder}: is the last of {run.plan.looks:,} looks; there are no more")
    seed = None if record is None else record["plan"].get("seed")
    if seed != run.plan.seed:
        raise UsageError(
            f"{folder}: tosses its coins again by the seed {seed}; give --seed {seed}, or leave "
            "--after out"
        )


def crossed(run: Run, defense: str, reference: bool) -> Crossed | None:
    """Return what the looks before this one at a release have crossed; None: there were none."""
    after = run.plan.after
    for one in () if after is None else _read(after.folder).releases:
        if (one.defense, one.reference) == (defense, reference) and one.tosses is not None:
            return one.tosses.after
    return None


@cache
def _read(folder: Path) -> EvidenceFile:
    return evidence_file.read(folder)
