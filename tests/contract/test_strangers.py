"""The examples of the docs, installed by pip as packages of strangers, met as users meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit import api
from audit.contract.imports import imported, within
from audit.corpora import writing
from tests.builders import dialogs
from tests.command_line import audit

PAGES = ("adding-a-defense", "a-defense-with-a-guarantee", "adding-an-attack")
RUNS = {
    "adding-a-defense": ("halved:share=0.3", "extraction:generations=10,searched=5"),
    "a-defense-with-a-guarantee": ("noisy_descent:steps=2", "extraction:generations=10"),
    "adding-an-attack": ("none", "likelihood"),
}
SHORTER_THAN = {"halved": 40, "ballot": 120, "noisy_descent": 120, "likelihood": 40}  # lines
PLAN = 'corpus = "few.jsonl"\nutility_tokens = 64\n[planting]\nusers = 8\n[training]\nepochs = 1\n'


@dataclass(frozen=True)
class Stranger:
    """A package made of one page's blocks, installed where nothing else is."""

    page: str
    source: Path
    site: Path

    def python(self, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.site)}
        line = [sys.executable, *words]
        return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, encoding="utf-8")


SLOW = [pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:]]


@pytest.fixture(scope="module", params=[PAGES[0], *SLOW])
def stranger(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    blocks: Callable[[str, str], list[str]],
) -> Stranger:
    folder = tmp_path_factory.mktemp(request.param)
    made = Stranger(request.param, folder / "source", folder / "site")
    package = made.source / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (project,) = blocks(made.page, "toml")
    *examples, test = blocks(made.page, "python")
    for example, (name, place) in zip(examples, entry_points(project).items(), strict=True):
        (package / f"{name}.py").write_text(example, encoding="utf-8")
        assert place == f"my_package.{name}"
    (made.source / "pyproject.toml").write_text(project, encoding="utf-8")
    (made.source / "test_contract.py").write_text(test, encoding="utf-8")
    offline = ("--no-index", "--no-build-isolation", "--no-deps", "--quiet")
    installed = made.python(
        folder, "-m", "pip", "install", *offline, "--target", str(made.site), str(made.source)
    )
    assert installed.returncode == 0, installed.stderr
    return made


def entry_points(project: str) -> dict[str, str]:
    (group,) = tomllib.loads(project)["project"]["entry-points"].values()
    return dict(group)


@pytest.mark.parametrize("page", PAGES)
def test_an_example_is_short_and_imports_public_names_only(
    page: str, blocks: Callable[[str, str], list[str]]
) -> None:
    (project,), (*examples, _) = blocks(page, "toml"), blocks(page, "python")
    for example, name in zip(examples, entry_points(project), strict=True):
        lines = [line for line in example.splitlines() if line.strip()]
        assert len(lines) < SHORTER_THAN[name]
        found = within(imported(example), "audit", "defenses", "attacks")
        assert found and not [one for one in found if "._" in one]


@pytest.fixture
def installed(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, forgotten_package: None
) -> Stranger:
    """The same in this process, whose path its place is on as long as the test runs."""
    monkeypatch.syspath_prepend(stranger.site)
    return stranger


def test_it_is_listed_with_what_it_does(stranger: Stranger) -> None:
    """In a process of its own, as installed; the tests below spare themselves another import."""
    listed = stranger.python(stranger.site, "-m", "audit", "list")
    assert listed.returncode == 0, listed.stderr
    for name in entry_points((stranger.source / "pyproject.toml").read_text(encoding="utf-8")):
        (line,) = [line for line in listed.stdout.splitlines() if line.startswith(f"  {name} ")]
        assert len(line.removeprefix(f"  {name}").strip()) > 20


def write_plan(folder: Path) -> None:
    writing.write(dialogs(8).records, folder / "few.jsonl")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")


@pytest.mark.slow
def test_it_is_audited(installed: Stranger, tmp_path: Path) -> None:
    write_plan(tmp_path)
    defense, attack = RUNS[installed.page]
    ran = audit(
        "run", "--plan", "plan.toml", "--output", "out", "--workers", "1", "--no-references",
        "--defense", defense, "--attack", attack, "--format", "json", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    headline, place = ran.stdout.splitlines()[-2:]
    assert headline.startswith(f"{defense.partition(':')[0]}: ") and attack in headline
    assert (tmp_path / place).read_text(encoding="utf-8").startswith("{")


@pytest.mark.slow
@pytest.mark.parametrize("stranger", PAGES[:1], indirect=True)
def test_an_ensemble_is_attacked_exported_and_served(installed: Stranger, tmp_path: Path) -> None:
    write_plan(tmp_path)
    ran = audit(
        "run", "--plan", "plan.toml", "--output", "out", "--workers", "1", "--no-references",
        "--defense", "ballot:k=3,epsilon=600,budget=300", "--attack", "ledger:tokens=16",
        "--attack", "extraction:generations=10,searched=5", "--format", "json", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    (release,) = results["releases"]
    assert release["guarantee"]["epsilon"] == 600 and release["guarantee"]["relation"] == "replace"
    assert {f["attack"].partition(":")[0] for f in release["findings"]} == {"ledger", "extraction"}
    (ledger,) = [f for f in release["findings"] if f["attack"].startswith("ledger")]
    assert ledger["claim"] == "not refuted"
    done = audit("export", "out", "ballot", "service", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with api.serve(tmp_path / "service", tmp_path / "ledger") as service:
        service.complete("Hello", 4)
        assert (service.remaining, service.guarantee.epsilon) == (296, 600.0)


@pytest.mark.slow
def test_the_pages_checks_pass(stranger: Stranger) -> None:
    ran = stranger.python(
        stranger.source.parent, "-m", "pytest", "-q", "-p", "no:cacheprovider", "source"
    )
    assert ran.returncode == 0, ran.stdout
    assert "passed" in ran.stdout


def test_a_bad_parameter_of_it_is_one_line(installed: Stranger, tmp_path: Path) -> None:
    stranger = installed
    words = [word.partition(":")[0] for word in RUNS[stranger.page]]
    kind = "--attack" if stranger.page == "adding-an-attack" else "--defense"
    name = words[kind == "--attack"]
    given = ("--defense", words[0], "--attack", words[1], kind, f"{name}:shaer=2")
    ran = audit("run", *given, cwd=tmp_path)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert f"{name}: unknown parameter 'shaer'" in ran.stderr
