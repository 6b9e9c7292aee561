"""Verifies a sweep: each seed's folder, then what stands of all of them together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from audit.results.schema import to_json
from audit.run.sweep.together import together
from audit.verify.differences import differences
from audit.verify.documents import Stated
from audit.verify.plan import of_plan

PLAN_FILE = "plan.toml"


def seed_folders(sweep: Stated) -> list[Path]:
    """Return the folders of a sweep's seeds, by its plan."""
    seeds = sweep.results.plan.get("seeds")
    whole = isinstance(seeds, list) and all(type(seed) is int for seed in seeds)
    return [sweep.folder / "seeds" / f"{seed}" for seed in seeds] if whole else []  # type: ignore[union-attr]


def of_sweep(sweep: Stated, runs: Sequence[Stated]) -> Iterator[str]:
    """List what of a sweep's results does not follow from those of its seeds."""
    yield from of_plan(sweep)
    whole, of_all = sweep.document["plan"], ("seeds", "sweep", "hash")
    common = {name: value for name, value in whole.items() if name not in of_all}
    for run in runs:
        own = {k: v for k, v in run.document["plan"].items() if k != "hash"}
        name = run.folder.name
        yield from differences(f"seeds/{name}: plan", own, {**common, "seed": int(name)})
    seeds = [(run.results.plan["seed"], run.results.plan["hash"]) for run in runs]
    follows = together(sweep.results.plan, PLAN_FILE, seeds, [r.results for r in runs], 0.0)
    follows = follows.model_copy(update={"environment": sweep.results.environment})
    yield from differences("", sweep.document, json.loads(to_json(follows)))
