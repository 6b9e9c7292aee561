"""The look before this one at the same coins: which tosses of them have crossed a limit by then.

docs/methods/looks.md, "Coins that are tossed again for all looks".
"""

from __future__ import annotations

from functools import cache

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.measure import evidence_file
from audit.measure.evidence_file import EvidenceFile
from audit.plan.plan import Earlier
from audit.prepare.run import Run
from audit.results.folder import run_record
from audit.statistics.retossed import Crossed


def check(run: Run) -> None:
    """Raise UsageError where the look before is none at the same coins, tossed the same way."""
    if run.plan.after is None:
        return
    folder, here = run.plan.after.folder, run.planted.coins
    there, record = _read(run.plan.after), run_record(folder)
    if record is None or record["hash"] != there.plan_hash:
        raise UsageError(
            f"{folder}: its manifest.json is not of the run that its evidence.json is of; give "
            "--after the folder of a finished run"
        )
    if list(there.coins.present.values()) != list(here.present.values()):
        raise UsageError(f"{folder}: is a look at other coins; give --after a look at these")
    if digest_of_json(record["plan"].get("attacks")) != digest_of_json(
        run.plan.document["attacks"]
    ):
        raise UsageError(f"{folder}: makes other attacks; give both the same, or leave --after out")
    if there.family != run.family:
        raise UsageError(
            f"{folder}: makes {there.family.tests:,} tests over {there.family.looks:,} looks, and "
            f"this one {run.family.tests:,} over {run.family.looks:,}; give both the same base "
            "of as_is and --looks, or leave --after out"
        )
    if any(t.after.looks >= run.plan.looks for r in there.releases if (t := r.tosses) is not None):
        raise UsageError(f"{folder}: is the last of {run.plan.looks:,} looks; there are no more")
    if (seed := record["plan"].get("seed")) != run.plan.seed:
        raise UsageError(
            f"{folder}: tosses its coins again by the seed {seed}; give --seed {seed}, or leave "
            "--after out"
        )


def crossed(run: Run, defense: str, reference: bool) -> Crossed | None:
    """Return what the looks before this one at a release have crossed; None: there were none."""
    after = run.plan.after
    for one in () if after is None else _read(after).releases:
        if (one.defense, one.reference) == (defense, reference) and one.tosses is not None:
            return one.tosses.after
    return None


@cache
def _read(after: Earlier) -> EvidenceFile:
    return evidence_file.read(after.folder)
