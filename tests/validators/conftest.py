"""Reports of every kind as files, and the tools that judge them, skipped where not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from audit.gate import baseline, verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Limit, Policy, Waiver
from audit.results.schema import Results
from audit.run import reports as writing
from reports import Report, TwoRuns
from tests import by_hand as make
from tests.gate.make import TODAY
from tests.gate.test_hostile import HOSTILE, poisoned
from tests.gate.test_outputs import OUTCOME

TESTS = Path(__file__).parents[1]
HOSTILE_PAIR = ("hostile", "hostile_four")
INSTALLED = Path(os.environ.get("VALIDATORS") or TESTS.parent / "build" / "validators")

PLAN = """
corpus = "own.jsonl"
utility_tokens = 64
device = "cpu"
[planting]
code_digits = 3
code_copies = 8
id_digits = 3
id_copies = [1, 8]
"""
# All there is, so that every claim, condition and measure is in a report; enough for leaks.
RUN = f"""
defense = ["all"]
attack = ["extraction:generations=50,searched=10", "exposure:budget=200,samples=50",
          "membership", "name_leak:generations=8,length=6,decoys=2"]
{PLAN}
users = 24
[training]
epochs = 10
"""
SWEEP = f"""
attack = ["extraction:generations=20,searched=10"]
{PLAN}
users = 12
[training]
epochs = 2
[sweep]
defense = ["submix:k=2,budget=100", "redaction"]
epsilon = [1, 8]
seeds = [0, 1]
"""


@pytest.fixture(scope="session")
def installed() -> Callable[[str], Path]:
    """installed(path) -> what install.sh has put there."""

    def find(path: str) -> Path:
        if not (INSTALLED / path).exists():
            pytest.skip(f"{path} is not in {INSTALLED}: run tests/validators/install.sh")
        return INSTALLED / path

    return find


@pytest.fixture(scope="session")
def program() -> Callable[..., str]:
    """program(*names) -> the first of them that this machine has."""

    def find(*names: str) -> str:
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None:
            pytest.skip(f"{names[0]} is not installed")
        return found

    return find


@pytest.fixture(scope="session")
def by_hand() -> dict[str, Results]:
    """What the tests of the reports are made of: leaks, none, guarantees, hostile text."""
    made = {name: build() for name, build in make.EVERY.items()}
    return made | {
        "swept": make.on_two_seeds(made["four"]),
        "hostile_swept": make.on_two_seeds(made["hostile"]),
    }


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders of the program itself: by name."""
    folder = tmp_path_factory.mktemp("real")
    write_corpus(folder / "own.jsonl")
    (folder / "audit.toml").write_text("leaks = true\n")
    for name, words, plan, code in (
        ("run", ["run", "--plan"], RUN, 1),
        ("sweep", ["sweep"], SWEEP, 0),
    ):
        (folder / f"{name}.toml").write_text(plan)
        audit(folder, *words, f"{name}.toml", "--output", name, "--format", "json,html,pdf")
        audit(folder, "gate", name, "--format", "junit,sarif", code=code)  # 1: a leak
    return {name: folder / name for name in ("run", "sweep")}


def audit(folder: Path, *words: str, code: int = 0) -> None:
    line = [sys.executable, "-m", "audit", *words]
    ran = subprocess.run(line, cwd=folder, capture_output=True, encoding="utf-8", timeout=1800)
    assert ran.returncode == code, ran.stderr


def write_corpus(path: Path) -> None:
    """56 people with two short texts each; twelve of them held out."""
    first = ["Ann", "Ben", "Cat", "Dan", "Eve", "Fay", "Gus", "Hal"]
    last = ["Lee", "Orr", "Poe", "Ray", "Sun", "Tay", "Ude"]
    rows = [
        {"user": f"u{i}", "name": f"{first[i % 8]} {last[i // 8]}", "text": text,
         "split": "private" if i < 44 else "heldout"}
        for i in range(56)
        for text in (f"Hello, this is {first[i % 8]} {last[i // 8]}, number {i}.",
                     f"Thank you, and bye from {first[i % 8]} {last[i // 8]}! {i}")
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="session")
def reports(
    by_hand: dict[str, Results],
    real: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Folders with report.html and report.pdf: by name."""
    made = dict(real)
    for name, results in by_hand.items():
        made[name] = tmp_path_factory.mktemp(name)
        writing.write(Report(results, made[name]), ["html", "pdf"])
    for name, pair in {"compared": ("results", "four"), "hostile_compared": HOSTILE_PAIR}.items():
        made[name] = tmp_path_factory.mktemp(name)
        runs = TwoRuns(*map(by_hand.__getitem__, pair))
        for path in writing.write_comparison(runs, ["html", "pdf"], made[name]):
            path.rename(path.with_stem("report"))
    return made


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Outcome]:
    """A gate's outcome of every kind: by name."""
    every = OUTCOME
    alone = {
        state.name.lower(): replace(
            every, checks=tuple(c for c in every.checks if c.state == state)
        )
        for state in State
    }
    strict = {f"{name}_strict": replace(one, strict=True) for name, one in alone.items()}
    nothing = replace(every, checks=(), notes=())
    return {"every": every, "nothing": nothing, **alone, **strict, "hostile": hostile_outcome()}


def only(outcome: Outcome, state: State) -> Outcome:
    return replace(outcome, checks=tuple(c for c in outcome.checks if c.state == state))


def hostile_outcome() -> Outcome:
    text, today = HOSTILE, TODAY
    policy = Policy(
        limit=(Limit(0.1, line=3), Limit(0.1, defense=text[:40])),
        waiver=(Waiver("limit/*", today, text), Waiver(text, today, text)),
        leaks=True,
        name=text,
    )
    old = baseline.make(poisoned(0), text, today)
    return verdict(poisoned(), policy, old, today)
