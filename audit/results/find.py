"""Choose the folder that a run is written to, and read what an earlier run there was of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from audit.core import writing
from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.core.visible import visible
from audit.results import foreign
from audit.results.folder import RunFolder, run_record

HOME = Path("audits")  # of runs that are given no folder
SHOWN = 4  # settings in which two plans differ


def find(
    output: Path | None, plan: Mapping[str, Any], trust: bool = False, command: str = ""
) -> RunFolder:
    """Choose the folder to run in: `output`, else the newest of this plan, else a new one.

    plan: its document. trust: as in RunFolder. command: what runs the plan, without its folder.
    Raises UsageError if `output` holds another plan or something else, or is led elsewhere by a
    link.
    """
    plan_hash = digest_of_json(plan)
    _check_links(HOME if output is None else output)
    path = _newest(plan_hash) or _fresh(plan_hash) if output is None else output
    again = shlex.join([*shlex.split(command), "--output", str(path)]) if command else ""
    found = RunFolder(path, plan_hash, trust, again)
    if output is None:
        return found
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: is a file; --output needs a folder")
    foreign.check(output)
    record = run_record(output)
    if record is None:
        # a run killed before it wrote manifest.json leaves no more than these
        names = {p.name for p in output.iterdir()} if output.exists() else set()
        if any(n != "stages" and not writing.PARTIAL.fullmatch(n) for n in names):
            raise UsageError(f"{output}: is not empty and holds no run; choose another --output")
    elif record.get("hash") != plan_hash:
        raise UsageError(
            f"{output}: holds a run of another plan ({_difference(record['plan'], plan)}); "
            "give the same settings, or choose another --output"
        )
    return found


def _difference(there: Any, here: Mapping[str, Any]) -> str:
    """Name what two plans' documents do not share, with the values of numbers and short texts."""
    old = there if isinstance(there, Mapping) else {}
    new = json.loads(json.dumps(here))  # a tuple is a list where it was stored
    keys = sorted(k for k in {*old, *new} - {"hash"} if old.get(k) != new.get(k))
    if len(keys) > SHOWN:
        return f"{len(keys)} settings differ"
    return ", ".join(_change(key, old.get(key), new.get(key)) for key in keys)


_CALLED = {"finished": "the audited model", "trained_on": "the training file"}  # in a plan


def _change(key: str, old: Any, new: Any) -> str:
    key = _CALLED.get(key, key)
    if not all(isinstance(one, str | int | float) for one in (old, new)):
        return f"another value of {key}"
    return f"{key}: {visible(str(old), 20)} there, {visible(str(new), 20)} here"


def _check_links(output: Path) -> None:
    """Refuse a link in a path from here: a stranger's checkout may hold one."""
    for path in (output, *output.parents):
        if path.is_symlink() and (path == output or not output.is_absolute()):
            raise UsageError(f"{path}: is a link; give --output the folder that it leads to")


def begun_with(output: Path | None) -> dict[str, int]:
    """Return the threads of the run in a folder, which are else chosen by the cores of a machine.

    Numbers depend on them, so a run that is resumed on another machine keeps them.
    """
    record = None if output is None else run_record(output)
    plan = record["plan"] if record else {}
    threads = plan.get("threads") if isinstance(plan, Mapping) else None
    return {"threads": threads} if type(threads) is int and threads > 0 else {}


def _newest(plan_hash: str) -> Path | None:
    folders = [path.parent for path in HOME.glob("*/manifest.json")]
    same = [path for path in folders if (run_record(path) or {}).get("hash") == plan_hash]
    return max(same, key=lambda path: (path.stat().st_mtime, path.name), default=None)


def _fresh(plan_hash: str) -> Path:
    return HOME / f"{date.today().isoformat()}-{plan_hash[:8]}"
