"""Fixtures of several folders: a toy model, the command line, the docs' code, external models."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # toys: threads only wait for each other
os.environ.setdefault("AUDIT_STAGE_KEY", "of tests, " * 4)  # none is made in the home

import gc
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from audit.contract.toys import Bigram
    from tests.builders import Elsewhere

DOCS = Path(__file__).parents[1] / "docs"

# timing never decides a test; .ci/full repeats those of hypothesis with --hypothesis-profile=many
settings.register_profile("few", deadline=None, max_examples=12)
settings.register_profile("many", deadline=None, max_examples=200)
settings.load_profile("few")

FIRST = ("tests/run", "tests/train", "tests/contract", "tests/cli/test_interrupts", "tests/reports")

gc.set_threshold(100_000)  # as the command line: else a fifth of the time goes into collecting


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with files that do much in few tests, so that no process ends with one of them."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need a GPU are skipped where there is none."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests keep what belongs to a user in a folder of their own, not in the home."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """What is written is kept as soon as its process ends, so only a power cut needs the wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which refuses closed descriptors, too
        yield


@pytest.fixture
def bigram() -> Callable[..., Bigram]:
    """bigram(seed, spread=1.0, vocabulary=6): a random model; bigger spread, more opinion."""
    from audit.contract.toys import ALPHABET, Bigram, CharacterTokenizer

    def make(seed: int, spread: float = 1.0, vocabulary: int = 6) -> Bigram:
        logits = spread * np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
        table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return Bigram(table, CharacterTokenizer(ALPHABET[:vocabulary]))

    return make


@pytest.fixture(scope="session")
def plain() -> SimpleNamespace:
    """How a model is trained outside the project: the builders' plain loop, by name."""
    from tests import builders

    return SimpleNamespace(
        loaded=builders.loaded,
        fit=builders.fit,
        dialogs=builders.dialogs,
        rows_of=builders.rows_of,
        with_adapter=builders.with_adapter,
    )


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """shared(name, make): the folder that make(folder) filled, once for all workers of xdist."""
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        with FileLock(base / f"{name}.lock"):
            if not (base / name / "made").exists():
                (base / name).mkdir(exist_ok=True)
                make(base / name)
                (base / name / "made").touch()
        return base / name

    return folder


@pytest.fixture(scope="session")
def made(shared: Callable[..., Path]) -> Elsewhere:
    """A planted corpus, and a model and an adapter trained on it by a plain loop."""
    from tests.builders import Elsewhere, train_elsewhere

    return Elsewhere.of(shared("elsewhere", train_elsewhere))


@pytest.fixture
def audit() -> Callable[..., tuple[int, str, str]]:
    """audit("run", …): (exit code, stdout, stderr) of the command line, in this process."""
    from tests import command_line

    def run(*words: object) -> tuple[int, str, str]:
        done = command_line.audit(*words)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def refused(audit: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """refused("run", …): the one line, but for progress, with which the command line leaves
    with 2."""

    def line(*words: object) -> str:
        code, _, told = audit(*words)
        assert code == 2, told
        lines = [line for line in told.splitlines() if not line.startswith("[")]
        assert len(lines) == 1, told
        return lines[0]

    return line


@pytest.fixture(scope="session")
def blocks() -> Callable[[str, str], list[str]]:
    """blocks("python", "toml"): the code blocks of docs/python.md in that language, in order."""

    def found(page: str, language: str) -> list[str]:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)

    return found


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """module(source): imported from a file of its own, as long as the test runs."""
    names: list[str] = []

    def imported(source: str) -> ModuleType:
        path = tmp_path / f"stranger_{len(names)}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        names.append(path.stem)
        made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    yield imported
    for name in names:
        del sys.modules[name]


@pytest.fixture
def forgotten_package() -> Iterator[None]:
    """Forget the docs' example package after a test: other pages' examples have its name, too."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_package"]:
        del sys.modules[name]
