"""What is damaged in a run folder is named, and never measured with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.core.files import read_json, read_text, regular
from audit.results.folder import RunFolder
from tests.command_line import audit

WORDS = ("run", "--defense", "submix:k=2,budget=300", "--attack", "extraction:generations=4",
         "--device", "cpu", "--workers", "1", "--format", "json", "--no-references",
         "--output", "out")  # fmt: skip
PLAN = "[planting]\nusers = 4\n[training]\nepochs = 1\n"


@pytest.mark.parametrize(
    "text", ["", '{"seen": [1', "null", "[]", "3", "[" * 100_000, '{"seen": 1, "digest": 2}']
)
def test_stage_that_no_run_wrote_is_made_again(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path, "a" * 64)
    folder.stages.mkdir()
    folder.stage("x.json").write_text(text)
    assert folder.stored("x", lambda: {"seen": 2}) == {"seen": 2}
    assert folder.stored("x", dict) == {"seen": 2}


def test_stage_with_one_changed_number_is_made_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "a" * 64)
    folder.stages.mkdir()
    made = {"seen": {"1": [1.5, None, float("inf")], "é": "\ud800"}, "n": 3}
    assert folder.stored("x", lambda: made) == made
    assert folder.stored("x", dict) == made
    path = folder.stage("x.json")
    for text in (path.read_text("utf-8").replace("1.5", "1.6"), '{"seen": 1}'):
        path.write_text(text)
        assert folder.stored("x", lambda: made) == made
        assert path.read_text("utf-8") != text


def test_only_regular_files_of_some_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"a" * 2**21)
    for name in ("pipe", "zero", "loop", "a" * 5000, "a\0", ".", "none"):
        with pytest.raises(OSError, match=r"\w") as refused:
            read_text(tmp_path / name)
        assert refused.value.strerror
    with pytest.raises(OSError, match="larger than 1 MB"):
        regular(tmp_path / "large", 2**20)
    assert len(read_text(tmp_path / "large")) == 2**21
    for text in ("[" * 100_000, '{"a": [' * 33 + "]}" * 33):
        (tmp_path / "deep").write_text(text)
        with pytest.raises(ValueError, match="nested too deeply"):
            read_json(tmp_path / "deep")
    (tmp_path / "deep").write_text('{"a": [' * 32 + "]}" * 32)
    assert read_json(tmp_path / "deep")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("finished")
    (home / "plan.toml").write_text(PLAN)
    done = audit(*WORDS, "--plan", "plan.toml", cwd=home)
    assert done.returncode == 0, done.stderr
    return home


def without_session(out: Path) -> None:
    for path in (out / "stages").glob("session-*.json"):
        path.unlink()


def cut(out: Path) -> None:
    without_session(out)
    for path in (out / "stages").glob("trained-*.safetensors"):
        path.write_bytes(path.read_bytes()[:-1000])


def empty(out: Path) -> None:
    without_session(out)
    for path in (out / "stages").glob("trained-*.safetensors"):
        path.write_bytes(b"")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no ledger": (lambda out: (out / "ledger.jsonl").unlink(), "ledger.jsonl: lacks the charges"),
    "an empty ledger": (lambda out: (out / "ledger.jsonl").write_text(""), "lacks the charges"),
    "a ledger of null": (lambda out: (out / "ledger.jsonl").write_text("null\n"), "ledger.jsonl"),
    "a ledger of text": (lambda out: (out / "ledger.jsonl").write_text("a\nb\n"), "ledger.jsonl"),
}
STAGES: dict[str, Callable[[Path], object]] = {
    "a cut model": cut,
    "an empty model": empty,
    "a null stage": lambda out: [
        path.write_text("null") for path in (out / "stages").glob("session-*.json")
    ],
    "a short key": lambda out: (out / "stages" / "mask.key").write_text("a"),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", STAGES)
def test_damaged_stage_costs_time_only(finished: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(finished, tmp_path / "home")
    STAGES[damage](tmp_path / "home" / "out")
    done = audit(*WORDS, "--plan", "plan.toml", cwd=tmp_path / "home")
    assert done.returncode == 0 and "not signed with your key" in done.stderr, done.stderr
    assert measured(tmp_path / "home" / "out") == measured(finished / "out")


def measured(out: Path) -> object:
    """results.json without what differs between two runs."""
    document = json.loads((out / "results.json").read_text("utf-8"))
    document.pop("environment")
    return [document, [release.pop("cost") for release in document["releases"]]][0]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_ends_with_the_file(finished: Path, tmp_path: Path, damage: str) -> None:
    harm, words = DAMAGES[damage]
    shutil.copytree(finished, tmp_path / "home")
    results = (finished / "out" / "results.json").read_bytes()
    harm(tmp_path / "home" / "out")
    done = audit(*WORDS, "--plan", "plan.toml", cwd=tmp_path / "home")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("[")]
    assert done.returncode in (2, 3)
    assert len(lines) == 1 and words in lines[0] and "run failed" not in lines[0], done.stderr
    assert (tmp_path / "home" / "out" / "results.json").read_bytes() == results
    record = json.loads((tmp_path / "home" / "out" / "manifest.json").read_text("utf-8"))
    assert record["status"] == "failed"
