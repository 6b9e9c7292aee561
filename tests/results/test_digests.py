"""Digests of weights: of what is released, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core import stages
from audit.results import digests
from audit.results.folder import RunFolder

A, B = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))


def known(
    folder: Path, kind: str = "model", names: Any = ("a",), texts: str | None = None, **changes: Any
) -> dict[str, str]:
    """What is known of a release whose note names these stages."""
    (folder / "stages").mkdir(exist_ok=True)
    stages.write(folder / "stages" / "a", b"one")
    stages.write(folder / "stages" / "b", b"two")
    members = [{"label": "x", "weights": name} for name in names]
    made = {"defense": "d", "shown": {"k": 2}, "members": members, "texts": texts} | changes
    stages.write(digests.note_path(RunFolder(folder, "h")), json.dumps({"releases": {"d": made}}))
    return weights(folder, kind)


def weights(folder: Path, kind: str = "model", seed: int = 0, sweep: Any = None) -> dict[str, str]:
    """What is known of this release, whatever the note says."""
    results: Any = SimpleNamespace(plan={"hash": "h"}, sweep=sweep)
    release: Any = SimpleNamespace(
        defense="d", parameters={"k": 2}, seed=seed, guarantee=SimpleNamespace(release=kind)
    )
    return digests.weights(folder, results, release)


def test_a_model_has_one_file_and_a_service_its_members(tmp_path: Path) -> None:
    assert known(tmp_path) == {"model.safetensors": A}
    members = known(tmp_path, "predictions", ["a", None, "b"])
    assert members == {"members/000.safetensors": A, "members/002.safetensors": B}


def test_an_adapter_has_the_name_under_which_it_is_handed_over(tmp_path: Path) -> None:
    known(tmp_path)
    path = digests.note_path(RunFolder(tmp_path, "h"))
    note = json.loads(path.read_text("utf-8")) | {"model": {"lora": "r=2,alpha=4,targets=auto"}}
    stages.write(path, json.dumps(note))
    assert weights(tmp_path) == {"adapter_model.safetensors": A}


def test_the_weights_are_not_what_is_released_where_only_texts_are(tmp_path: Path) -> None:
    assert known(tmp_path, texts="t.json") == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"shown": {"k": 3}},
        {"defense": "e"},
        {"members": None},
        {"members": [{"label": "x"}]},
        {"names": ["gone"]},
        {"names": [None]},
        {"names": ["a", "b"]},
    ],
)
def test_what_is_not_there_is_not_known(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert known(tmp_path, **changes) == {}


@pytest.mark.parametrize("name", ["a", "releases-h.json"])
def test_weights_that_a_stranger_made_are_not_known(tmp_path: Path, name: str) -> None:
    """A statement is about what was audited, not about what lies there now."""
    assert known(tmp_path) == {"model.safetensors": A}
    path = tmp_path / "stages" / name
    path.write_bytes(path.read_bytes() + b" ")
    assert weights(tmp_path) == {}


@pytest.mark.parametrize("note", ["", "null", "[]", '{"releases": 1}', '{"releases": {"d": 1}}'])
def test_a_damaged_note_is_no_note(tmp_path: Path, note: str) -> None:
    known(tmp_path)
    stages.write(digests.note_path(RunFolder(tmp_path, "h")), note)
    assert weights(tmp_path) == {}


def test_in_a_sweep_the_weights_are_those_of_the_seed(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / "seeds" / str(seed)).mkdir(parents=True)
        known(tmp_path / "seeds" / str(seed))
    stages.write(tmp_path / "seeds" / "1" / "stages" / "a", b"two")
    sweep = SimpleNamespace(seeds=[SimpleNamespace(seed=seed, plan_hash="h") for seed in (0, 1)])
    for seed, digest in ((0, A), (1, B)):
        assert weights(tmp_path, seed=seed, sweep=sweep) == {"model.safetensors": digest}
