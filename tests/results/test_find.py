"""Which folder a run is written to, and what one that holds another run is refused for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.results import find as finding
from audit.results.find import begun_with, find
from audit.results.folder import RunFolder, run_record

X, Y = ({"seed": seed, "threads": 1, "attacks": [{"name": "ngram"}]} for seed in (0, 1))
HASH = digest_of_json(X)


def finished(path: Path, plan: dict[str, Any]) -> RunFolder:
    """A run folder as a finished run of a plan leaves it."""
    folder = RunFolder(path, digest_of_json(plan))
    with folder.held(plan):
        folder.mark("complete", plan)
    return folder


def test_without_an_output_the_newest_folder_of_the_plan_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for age, name, plan in [(30, "a", X), (10, "b", X), (20, "c", X), (1, "d", Y)]:
        finished(tmp_path / "audits" / name, plan)
        os.utime(tmp_path / "audits" / name, (1e9 - age, 1e9 - age))
    assert find(None, X).path == Path("audits/b")
    assert find(None, Y).path == Path("audits/d")


def test_without_an_output_and_without_a_run_a_dated_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audits" / "stray").mkdir(parents=True)
    (tmp_path / "audits" / "stray" / "manifest.json").write_text("{torn")
    found = find(None, X).path
    assert found.parent == Path("audits") and not found.exists()
    assert found.name.endswith(f"-{HASH[:8]}")
    again = find(None, X, command="audit run --plan 'my plan.toml'")
    found.mkdir(parents=True)
    again.mark("running", X)
    record = run_record(found)
    assert record and record["command"] == f"audit run --plan 'my plan.toml' --output {found}"


def test_an_output_of_the_same_plan_is_resumed(tmp_path: Path) -> None:
    finished(tmp_path / "run", X)
    assert find(tmp_path / "run", X) == RunFolder(tmp_path / "run", HASH)
    assert find(tmp_path / "new", X) == RunFolder(tmp_path / "new", HASH)
    (tmp_path / "empty").mkdir()
    assert find(tmp_path / "empty", X).path == tmp_path / "empty"


def test_a_refused_output_names_the_difference(tmp_path: Path) -> None:
    finished(tmp_path / "run", X)
    assert find(tmp_path / "run", {**X, "attacks": ({"name": "ngram"},)}).path  # as JSON the same
    changes: list[tuple[dict[str, Any], str]] = [
        ({"seed": 5}, r"another plan \(seed: 0 there, 5 here\); give the same settings"),
        ({"threads": 2, "attacks": []}, r"\(another value of attacks, threads: 1 there, 2 here\)"),
        ({"finished": {}}, r"\(another value of the audited model\)"),
        ({"policy": "digits"}, r"\(another value of policy\)"),  # the folder states none
        ({"seed": "x" * 99}, r"\(seed: 0 there, x{20} … "),
        ({str(i): i for i in range(finding.SHOWN + 1)}, r"\(5 settings differ\)"),
    ]
    for change, words in changes:
        with pytest.raises(UsageError, match=words):
            find(tmp_path / "run", {**X, **change})


def test_a_run_keeps_the_threads_that_it_began_with(tmp_path: Path) -> None:
    finished(tmp_path / "run", {**X, "threads": 3})
    assert begun_with(tmp_path / "run") == {"threads": 3}
    for strange in (0, -1, True, "3", None):
        RunFolder(tmp_path / "run", HASH).mark("running", {**X, "threads": strange})
        assert begun_with(tmp_path / "run") == {}
    (tmp_path / "run" / "manifest.json").write_text(
        '{"schema_version": "1", "status": "running", "hash": "x", "plan": []}'
    )
    assert begun_with(tmp_path / "run") == {}
    assert begun_with(tmp_path / "new") == begun_with(None) == {}


def test_an_output_full_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="not empty"):
        find(tmp_path, X)
    with pytest.raises(UsageError, match="is a file"):
        find(tmp_path / "thesis.tex", X)


@pytest.mark.parametrize("left", [[], ["stages/.gitignore"], ["stages/lock"]])
def test_a_run_killed_before_its_manifest_is_resumed(tmp_path: Path, left: list[str]) -> None:
    """Killed at any instant: also before, and while, the first manifest is written."""
    for name in left:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert find(tmp_path, X).path == tmp_path


def test_a_run_killed_while_its_first_manifest_is_written_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(os, "fsync", kill)
    with pytest.raises(Killed), RunFolder(tmp_path, HASH).held(X):
        pass
    monkeypatch.undo()
    assert run_record(tmp_path) is None
    assert find(tmp_path, X).path == tmp_path
    finished(tmp_path, X)
