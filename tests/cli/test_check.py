"""`audit check` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import audit

ADAPTERS = """
from tests.check.toy import NoiseTenPercentLow, Toy, Training

right, low = Toy(Training), Toy(NoiseTenPercentLow)
"""
SHORT = ("--sampling-probability", 0.1, "--steps", 20, "--no-texts")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "engines_of_a_test.py").write_text(ADAPTERS)
    return tmp_path


def test_a_right_engine_exits_with_0(folder: Path) -> None:
    done = audit("check", "engines_of_a_test:right", *SHORT, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "engines_of_a_test:right: every check passed"
    assert "quiet" in done.stderr


def test_a_fault_exits_with_1_and_is_named_and_written(folder: Path) -> None:
    words = ("check", "engines_of_a_test:low", *SHORT, "--json", "out.json", "--seed", 3)
    done = audit(*words, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "FAIL  K7 noise scale" in done.stdout
    assert "K7 failed, which usually means: below 1: the noise is divided" in done.stdout
    written = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert written["passed"] is False
    assert written["stated"]["steps"] == 20
    failed = {row["check"] for row in written["checks"] if row["status"] == "failed"}
    assert failed == {"K6′", "K7"}


def test_the_unit_is_passed_on(folder: Path) -> None:
    done = audit("check", "engines_of_a_test:right", *SHORT, "--unit", "user", cwd=folder)
    assert done.returncode == 0
    assert "K15 users" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("opacsu",), "did you mean 'opacus'?"),
        (("own", "--max-norm", "1"), "max_norm is 1.0; it must be above 0, finite and not 1"),
        (("own", "--noise-multiplier", "nan"), "noise_multiplier is nan"),
        (("own", "--sampling-probability", "0"), "sampling_probability is 0.0"),
        (("own", "--unit", "part"), "unit is part; it must be record or user"),
        (("own", "--steps", "many"), "--steps"),
        (("nowhere_at_all:run",), "ModuleNotFoundError"),
        (("own", "--json", "no/such/folder.json"), "its folder does not exist"),
        (("own", "--json", "/"), "is a directory"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(words: tuple[str, ...], said: str) -> None:
    done = audit("check", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
