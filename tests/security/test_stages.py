"""Stages that this user's key did not sign are not used, and this is said before training."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from audit import api
from audit.core import stage_key, stages
from audit.core.errors import UsageError
from audit.core.writing import append_lines
from audit.results.folder import RunFolder
from tests.command_line import audit

PLAN = (
    'defense = ["none"]\nattack = ["extraction:generations=40"]\nworkers = "1"\n'
    "references = false\n"
    "[planting]\nusers = 12\n[training]\nepochs = 1\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    path = tmp_path / "stages" / "session-x.json"
    path.parent.mkdir()
    stages.write(path, '{"seen": 1}')
    assert stages.is_signed(path)
    return path


# signatures


def changed(path: Path, patch: pytest.MonkeyPatch) -> Path:
    path.write_text('{"seen": 2}')
    return path


def renamed(path: Path, patch: pytest.MonkeyPatch) -> Path:
    for place in (path.parent, path.parent / "signatures"):
        (place / path.name).rename(place / "session-y.json")
    return path.with_name("session-y.json")


def unsigned(path: Path, patch: pytest.MonkeyPatch) -> Path:
    (path.parent / "signatures" / path.name).unlink()
    return path


def of_another_key(path: Path, patch: pytest.MonkeyPatch) -> Path:
    patch.setenv("AUDIT_STAGE_KEY", "of somebody else " * 2)
    return path


def of_no_key(path: Path, patch: pytest.MonkeyPatch) -> Path:
    patch.delenv("AUDIT_STAGE_KEY")
    patch.setenv("XDG_STATE_HOME", str(path.parent / "none"))
    return path


def larger_than_any_disk(path: Path, patch: pytest.MonkeyPatch) -> Path:
    with path.open("r+b") as file:
        file.truncate(1 << 42)
    return path


def with_a_strange_signature(path: Path, patch: pytest.MonkeyPatch) -> Path:
    (path.parent / "signatures" / path.name).write_bytes(b"\xff\xfe" * 9)
    return path


@pytest.mark.parametrize(
    "harm",
    [
        changed,
        renamed,
        unsigned,
        of_another_key,
        of_no_key,
        larger_than_any_disk,
        with_a_strange_signature,
    ],
)
def test_stage_is_signed_for_its_content_name_and_key_only(
    stage: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[..., Path]
) -> None:
    path = harm(stage, monkeypatch)
    assert path.exists() and not stages.is_signed(path)
    assert stages.unsigned(path.parent) == 1


def test_kill_between_signature_and_stage_keeps_the_old_one(
    stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages.writing, "write_atomically", after_the_first(killed))
        with pytest.raises(KeyboardInterrupt):
            stages.write(stage, "new")
    assert stages.is_signed(stage) and stage.read_text("utf-8") == '{"seen": 1}'
    stages.write(stage, "new")
    assert stages.is_signed(stage)


def after_the_first(last: Callable[..., None]) -> Callable[..., None]:
    """The function that writes a file once, and then does `last` in its place."""
    real, calls = stages.writing.write_atomically, []

    def write(*given: object, **more: object) -> None:
        calls.append(1)
        (real if len(calls) == 1 else last)(*given, **more)  # type: ignore[arg-type]

    return write


# the key


@pytest.fixture
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("AUDIT_STAGE_KEY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "llm-audit" / "stages" / "key"


def test_key_is_made_once_for_its_owner_only(key_file: Path) -> None:
    assert stage_key.made() == "" and stage_key.where() == str(key_file)
    first = key_file.read_text("utf-8")
    assert len(first) == 64 and stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
    assert stage_key.made() == "" and key_file.read_text("utf-8") == first


def test_poor_keys_are_refused(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage_key.made()
    key_file.chmod(0o644)
    with pytest.raises(UsageError, match="others can read"):
        stage_key.made()
    key_file.unlink()
    key_file.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="it is a link"):
        stage_key.signature("a", "b")
    monkeypatch.setenv("AUDIT_STAGE_KEY", "secret")
    with pytest.raises(UsageError, match="has 6 characters; give at least 32"):
        stage_key.made()


def test_run_without_a_home_says_that_it_cannot_be_resumed(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file.parents[2].write_text("not a folder")
    monkeypatch.setenv("AUDIT_STAGE_KEY", "x" * 32)  # restored afterwards
    del os.environ["AUDIT_STAGE_KEY"]
    assert "set AUDIT_STAGE_KEY to resume this run" in stage_key.made()
    assert len(stage_key.signature("a", "b")) == 64


# a run folder


def strange(path: Path) -> RunFolder:
    """A run folder that another user filled."""
    folder = RunFolder(path, "h")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUDIT_STAGE_KEY", "of somebody else " * 2)
        with folder.held({}):
            assert folder.admit() == []
            folder.stored("session-1", lambda: {"seen": 1})
            journal = folder.journal("s")
            journal.append([{"query": 0, "charge": [0.5], "stopped": True}])
            journal.keep("question", "answer")
            append_lines(path / "samples.jsonl", [{"session": "s"}])
    return folder


def test_run_of_another_user_is_put_aside(tmp_path: Path) -> None:
    folder = strange(tmp_path)
    key = folder.key
    with folder.held({}):
        (note,) = folder.admit()
        assert "6 files are not signed with your key (AUDIT_STAGE_KEY)" in note
        assert "--trust-stages" in note
        assert folder.key != key
        assert folder.journal("s").rows() == [] and folder.journal("s").recall("question") is None
        assert folder.stored("session-1", lambda: {"seen": 2}) == {"seen": 2}
        assert folder.admit() == []
    assert not (tmp_path / "samples.jsonl").exists()
    assert len(list((tmp_path / "stages" / stages.ASIDE).iterdir())) == 6


def test_signed_key_of_another_run_vouches_for_no_answers(tmp_path: Path) -> None:
    """Whoever has a copy of one run folder has its mask.key, signed by its user."""
    other, mine = strange(tmp_path / "strange"), RunFolder(tmp_path / "mine", "h")
    with mine.held({}):
        mine.admit()
        mine.journal("s").keep("asked", "told")
        mine.stage("answers.jsonl").rename(tmp_path / "own")
        shutil.copy(other.stage("answers.jsonl"), mine.stage("answers.jsonl"))
        (note,) = mine.admit()
        assert "1 file is not signed" in note and mine.journal("s").recall("question") is None
        (tmp_path / "own").rename(mine.stage("answers.jsonl"))
        assert mine.admit() == [] and mine.journal("s").recall("asked") == "told"
        row = json.loads(mine.stage("answers.jsonl").read_text("utf-8"))
        mine.stage("answers.jsonl").write_text(json.dumps({**row, "question": "another"}) + "\n")
        assert mine.journal("s").recall("another") is None


def test_own_run_is_resumed(tmp_path: Path) -> None:
    for _ in range(2):
        folder = RunFolder(tmp_path, "h")
        with folder.held({}):
            assert folder.admit() == []
            assert folder.stored("session-1", lambda: {"seen": 1}) == {"seen": 1}
            folder.journal("s").append([{"query": 0, "charge": [0.5], "stopped": True}])
            folder.journal("s").keep("question", "answer")
    assert len(folder.journal("s").rows()) == 2
    assert folder.journal("s").recall("question") == "answer"


def test_trusted_stages_are_used_and_signed(tmp_path: Path) -> None:
    strange(tmp_path)
    trusting = RunFolder(tmp_path, "h", trust=True)
    with trusting.held({}):
        assert trusting.admit() == []
    mine = RunFolder(tmp_path, "h")
    with mine.held({}):
        assert mine.admit() == []
        assert mine.stored("session-1", lambda: {"seen": 2}) == {"seen": 1}
        assert mine.journal("s").recall("question") == "answer" and mine.journal("s").rows()


def test_results_count_as_finished_while_signed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "h")
    with folder.held({}):
        (tmp_path / "results.json").write_text("{}")
        assert not folder.sealed
        folder.seal()
        assert folder.sealed
        (tmp_path / "results.json").write_text('{"leaked": "no leak found"}')
        assert not folder.sealed


# end to end


def poison(out: Path) -> None:
    """Replaces weights by half of them, and what sessions saw by what they did not see."""
    for path in (out / "stages").glob("trained-*.safetensors"):
        save_file({name: value * 0.5 for name, value in load_file(path).items()}, path)
    for path in (out / "stages").glob("session-*.json"):
        path.write_text(path.read_text("utf-8").replace("true", "false"))


@pytest.mark.slow
def test_poisoned_run_ends_with_its_own_results(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ("run", "--plan", "plan.toml", "--format", "json", "--output")
    assert audit(*words, "run", cwd=tmp_path).returncode == 0
    want = measured(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    resumed = audit(*words, "again", cwd=tmp_path)
    assert (
        " steps done before: trained on 2" in resumed.stderr and "not signed" not in resumed.stderr
    )
    assert measured(tmp_path / "again") == want
    poison(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUDIT_STAGE_KEY", "of the one who took it over, alone")
        stranger = audit(*words, "again", cwd=tmp_path)
        said, rest = stranger.stderr.split("not signed with your key", 1)
        assert "100%" not in said and "done before" not in rest
        assert measured(tmp_path / "again") == want
    done = audit(*words, "run", cwd=tmp_path)
    assert "not signed with your key" in done.stderr and "done before" not in done.stderr
    assert measured(tmp_path / "run") == want


def measured(out: Path) -> object:
    document = json.loads((out / "results.json").read_text("utf-8"))
    document.pop("environment")
    for release in document["releases"]:
        release.pop("cost")
    return document


@pytest.mark.slow
def test_export_copies_no_file_that_a_note_of_a_stranger_names(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ("run", "--plan", "plan.toml", "--format", "json", "--output", "run")
    assert audit(*words, cwd=tmp_path).returncode == 0
    (tmp_path / "id").write_text("PRIVATE KEY")
    (note,) = (tmp_path / "run" / "stages").glob("releases-*.json")
    made = json.loads(note.read_text("utf-8"))
    (member,) = made["releases"]["none"]["members"]
    member["weights"] = str(tmp_path / "id")
    own = note.read_text("utf-8")
    note.write_text(json.dumps(made))
    with pytest.raises(UsageError, match=r"releases-\w+\.json: is not signed with your key"):
        api.export(tmp_path / "run", "none", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    note.write_text(own)
    api.export(tmp_path / "run", "none", tmp_path / "out")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {0o600} and stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
