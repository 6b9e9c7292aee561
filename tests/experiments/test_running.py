"""A few claims are run from their command, and give the verdicts that are stored.

Their margins are wide: a model's seeded noise moves with the code that trains it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from audit.core import stages
from experiments import page
from experiments.__main__ import _share, main

PROJECT = Path(__file__).parents[2]


@pytest.mark.full
def test_claims_give_their_stored_verdicts_again(tmp_path: Path) -> None:
    """One command, so that they share what they train."""
    some = ("S1", "S5", "A2")
    words = [sys.executable, "-m", "experiments", *some, "--output", str(tmp_path)]
    ran = subprocess.run(words, cwd=PROJECT, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    for claim in some:
        stored = json.loads(page.stored_path(claim, "small").read_text(encoding="utf-8"))
        assert f"{claim} at small: {stored['verdict']}" in ran.stdout
        for statement in stored["statements"]:
            assert f"{statement['verdict']}: {statement['says']}" in ran.stdout
        results = json.loads(
            (tmp_path / "small" / claim / "main" / "run" / "results.json").read_text("utf-8")
        )
        verdict = json.loads((tmp_path / "small" / claim / "verdict.json").read_text("utf-8"))
        assert verdict["models"] == [results["plan"]["model"]["sha256"]]


def test_what_is_shared_is_a_signed_copy(tmp_path: Path) -> None:
    """A hard link is refused where stages are read, and a stage without its signature, too."""
    for name, content in (("stages", b"one"), ("models", b"another")):
        (tmp_path / name).mkdir()
        stages.write(tmp_path / name / "trained-a.safetensors", content)
    stages.write(tmp_path / "stages" / "counted-b.json", b"{}")
    stages.write(tmp_path / "stages" / "session-c.json", b"{}")
    _share(tmp_path / "stages", tmp_path / "models")
    made = tmp_path / "models"
    assert (made / "trained-a.safetensors").read_bytes() == b"another"
    assert stages.is_signed(made / "counted-b.json")
    assert (made / "counted-b.json").stat().st_nlink == 1
    assert not (made / "session-c.json").exists()


def test_results_of_other_code_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "small" / "P12" / "main"
    folder.mkdir(parents=True)
    (folder / "code").write_text("0" * 64)
    ran = CliRunner().invoke(main, ["P12", "--output", str(tmp_path)])
    assert ran.exit_code == 2
    assert ran.stderr.endswith("begun by other code; give another --output\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("M1", "M99"), "claim M99: unknown"),
        (("M1", "--scale", "medium"), "give the folder of corpora with --data DIR"),
        (("M1", "--output", "README.md"), "README.md"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is wrong stops all claims before the first is run."""
    monkeypatch.chdir(PROJECT)
    output = () if "--output" in words else ("--output", str(tmp_path / "out"))
    ran = CliRunner().invoke(main, [*words, *output])
    assert ran.exit_code == 2, ran.stderr[-2000:]
    assert message in ran.stderr and ran.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "small").exists()
