"""Hands over a release of a finished run: its weights and settings, with its guarantee beside it.

A run notes in its stages what each release is made of. `audit clean` removes that with the weights.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.core import stages
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError, did_you_mean
from audit.core.files import read_json
from audit.core.guarantee import Guarantee
from audit.core.lora import parsed
from audit.core.writing import (
    copy_file,
    make_folder,
    move,
    new_folder,
    remove_abandoned,
    write_atomically,
)
from audit.findings import stored
from audit.models.external_model import export_adapter
from audit.models.hostile_folder import OPENED
from audit.models.loading import LSTM, describe
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.results import digests, foreign
from audit.results.folder import RunFolder, run_record
from audit.results.schema import ReleaseResult, Results
from audit.run.promise import promise
from audit.run.service import GUARANTEE, MEMBERS, PUBLIC, SERVICE, opened
from audit.train.task import Task, weights_path

TEXTS = "texts.jsonl"
AGAIN = "run its plan again, which trains nothing that is there"


def note(run: Run, folder: RunFolder) -> None:
    """Store what each release of a run is made of, for `export`."""
    model = run.plan.model
    releases = {
        chosen.label: {**_made_of(chosen, tasks), "texts": _stage(run, chosen)}
        for chosen, tasks in run.tasks.items()
    }
    base: dict[str, Any] = {"path": str(model.path), "kind": model.kind, "sha256": model.sha256}
    base |= {} if model.lora is None else {"lora": str(model.lora)}
    document = {"model": base, "releases": releases}
    text = json.dumps(document, indent=1, default=str) + "\n"
    stages.write(digests.note_path(folder), text)


def _stage(run: Run, chosen: Chosen) -> str | None:
    """Name the stage that holds the texts of a release, where only these are released."""
    made = run.published.get(chosen.label)
    return None if made is None else f"{made.stage}.json"


def _made_of(chosen: Chosen, tasks: Sequence[Task]) -> dict[str, Any]:
    """Describe a release. Of an external model nothing is stored: it may be named by a URL."""
    if chosen.plugin.external:
        return {"defense": chosen.name, "external": True}
    paths = [weights_path(task) for task in tasks]
    return {
        "defense": chosen.name,
        "external": False,
        "parameters": chosen.parameters,
        "shown": chosen.shown,
        "members": [
            {"label": task.training.label, "weights": None if path is None else path.name}
            for task, path in zip(tasks, paths, strict=True)
        ],
    }


def export(run: Path, label: str, out: Path) -> str:
    """Write a release into a new folder and describe it. Raises UsageError.

    A model becomes a model folder, or that of an adapter, in PEFT's form. A service becomes its
    members, the public model and its settings, which `audit.api.serve` opens. Texts become
    texts.jsonl. guarantee.json lies beside.
    """
    foreign.check(run)
    results = stored.load(run / "results.json")
    document = _noted(run)
    made = _named(document["releases"], label, run)
    if made["external"]:
        raise UsageError(f"{label}: was trained elsewhere, so there is nothing to hand over")
    if document["model"]["kind"] == LSTM:
        raise UsageError(f"{label}: an LSTM has no format that others read")
    if out.exists():
        raise UsageError(f"{out}: is there already; name a new folder")
    found = _result_of(results, made)
    remove_abandoned(out.parent, out.name)
    with new_folder(out) as part:
        what, promised = _written(
            part, run / "stages", document["model"], made, found, results.corpus.sha256
        )
        _write(part / GUARANTEE, promise(results, found, promised))
        move(part, out)
    return f"{what} in {out}, with its promise in {out / GUARANTEE}"


def _noted(run: Path) -> Any:
    record = run_record(run)
    if record is None:
        raise UsageError(f"{run}: is not a run folder")
    path = digests.note_path(RunFolder(run, record["hash"]))
    if "sweep" in record["plan"]:
        raise UsageError(f"{run}: is a sweep; export from one of its runs, {run}/seeds/N")
    if not path.exists():
        raise UsageError(f"{run}: its trained models are not there; {AGAIN}")
    return read_json(_signed(path))


def _signed(path: Path) -> Path:
    """Return a stage that this user's key signed. Raises UsageError for any other."""
    if not path.exists():
        raise UsageError(f"{path}: is not there; {AGAIN}")
    if not stages.is_signed(path):
        raise UsageError(f"{path}: is not signed with your key; {AGAIN}")
    return path


def _named(releases: Mapping[str, Any], label: str, run: Path) -> Any:
    """Find a release by its label; its defense's name is enough where there is one setting."""
    if label in releases:
        return releases[label]
    alike = [made for made in releases.values() if made["defense"] == label]
    if len(alike) == 1:
        return alike[0]
    raise UsageError(f"{run}: no release {label!r}{did_you_mean(label, list(releases))}")


def _result_of(results: Results, made: Mapping[str, Any]) -> ReleaseResult:
    """Find what the run measured of a release."""
    wanted = (made["defense"], made["shown"])
    return next(r for r in results.releases if (r.defense, r.parameters) == wanted)


def _written(
    part: Path,
    folder: Path,
    base: Mapping[str, str],
    made: Mapping[str, Any],
    found: ReleaseResult,
    corpus: str,
) -> tuple[str, Guarantee]:
    """Write weights and settings, or texts; return what they are, and their guarantee."""
    if made.get("texts"):
        return _texts(part, _signed(folder / made["texts"])), found.guarantee
    names = [one["weights"] for one in made["members"]]
    weights = [None if name is None else _signed(folder / name) for name in names]
    public = Path(base["path"])
    if describe(str(public), EMBEDDED_FOLDER).sha256 != base["sha256"]:
        raise UsageError(f"{public}: was changed since the run; {AGAIN}")
    if found.guarantee.release == "model":
        (single,) = weights or [None]
        lora = base.get("lora") if single else None
        if single and lora:
            export_adapter(single, parsed(lora), public, part)
        else:
            _copy_model(public, part, single)
        what = "an adapter" if lora else "a model"
        return what, found.guarantee
    _copy_model(public, part / PUBLIC, None)
    make_folder(part / MEMBERS, private=True)
    members = [None if path is None else digests.member_name(i) for i, path in enumerate(weights)]
    for name, path in zip(members, weights, strict=True):
        if name is not None and path is not None:
            copy_file(path, part / MEMBERS / name)
    settings: dict[str, Any] = {
        "defense": made["defense"],
        "parameters": made["parameters"],
        "members": members,
        "corpus": corpus,
    }
    settings |= {"lora": base["lora"]} if base.get("lora") else {}
    _write(part / SERVICE, settings)
    served = opened(part).release.guarantee
    if _kind(served) != _kind(found.guarantee):
        raise UsageError(f"{made['defense']}: cannot be served from its weights alone")
    _write(part / SERVICE, {**settings, "guarantee": dataclasses.asdict(served)})
    return f"a service of {len(members)} models", served


def _texts(part: Path, stage: Path) -> str:
    """Write the texts of a release, one object a line."""
    texts = read_json(stage)["seen"]["texts"]
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    write_atomically(part / TEXTS, "".join(lines), private=True)
    return f"{len(texts):,} texts"


def _kind(promise: Any) -> tuple[Any, ...]:
    """Reduce a promise to its kind, without conditions: a served one has other randomness."""
    names = ("epsilon", "delta", "alpha", "unit", "relation", "basis", "release", "theorem")
    return tuple(getattr(promise, name) for name in names)


def _copy_model(base: Path, to: Path, weights: Path | None) -> None:
    """Copy a model folder, with other weights in the place of its own where these are given."""
    make_folder(to, private=True)
    for pattern in OPENED:  # settings and tokenizer
        for path in sorted(base.glob(pattern)):
            if weights is None or not path.name.endswith(".index.json"):
                copy_file(path, to / path.name)
    for path in [weights] if weights else sorted(base.glob("*.safetensors")):
        copy_file(path, to / (digests.MODEL if weights else path.name))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"
    write_atomically(path, text, private=True)
