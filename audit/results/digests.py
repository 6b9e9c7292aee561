"""Digests of files that others check: what a run wrote, and the weights that it releases.

Weights are known while `stages/` holds them; `audit clean` removes them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from audit.core import stages
from audit.core.digest import sha256_of_file
from audit.core.files import read_json
from audit.results.folder import RunFolder
from audit.results.schema import ReleaseResult, Results

MODEL, ADAPTER, MEMBERS = "model.safetensors", "adapter_model.safetensors", "members"


def note_path(folder: RunFolder) -> Path:
    """Name the stage that lists what each release of a run is made of."""
    return folder.stage(f"releases-{folder.plan_hash}.json")


def member_name(place: int) -> str:
    """Name the weights of one model of a service."""
    return f"{place:03}.safetensors"


def weights(run: Path, results: Results, release: ReleaseResult) -> dict[str, str]:
    """Compute SHA-256 of the weights of a release, by the file names that `audit export` gives.

    Empty where the weights are not in the run folder, are not signed with this user's key, or are
    not what is released: of texts, of a model that was trained elsewhere, of the public model.
    """
    home = _home(run, results, release)
    if not stages.is_signed(note_path(home)):
        return {}
    try:
        note = read_json(note_path(home))
        made = _made_of(note, release)
        names = [] if made.get("texts") else [one["weights"] for one in made.get("members", [])]
        paths = {i: home.stage(Path(name).name) for i, name in enumerate(names) if name}
        if not all(map(stages.is_signed, paths.values())):
            return {}
        if release.guarantee.release == "model":
            name = ADAPTER if note.get("model", {}).get("lora") else MODEL
            return {name: sha256_of_file(paths[0])} if len(names) == 1 and paths else {}
        return {f"{MEMBERS}/{member_name(i)}": sha256_of_file(path) for i, path in paths.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def of_members(members: dict[str, str]) -> str:
    """Compute the directory hash of a service's `members/` from the SHA-256 of each file.

    It is what `sha256sum` prints for all files in the order of their names, hashed again.
    """
    names = sorted((name.rpartition("/")[2], digest) for name, digest in members.items())
    lines = "".join(f"{digest}  {name}\n" for name, digest in names)
    return hashlib.sha256(lines.encode()).hexdigest()


def _home(run: Path, results: Results, release: ReleaseResult) -> RunFolder:
    """Return the run folder that a release is of: in a sweep, the one of its seed."""
    if results.sweep is None:
        return RunFolder(run, str(results.plan.get("hash")))
    hashes = {one.seed: one.plan_hash for one in results.sweep.seeds}
    return RunFolder(run / "seeds" / str(release.seed), str(hashes.get(release.seed)))


def _made_of(note: Any, release: ReleaseResult) -> Any:
    wanted = (release.defense, release.parameters)
    made = note["releases"].values()
    return next((one for one in made if (one["defense"], one.get("shown")) == wanted), {})
