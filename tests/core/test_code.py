"""The digest of code: what changes a result changes it, words and layout do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.core import code
from audit.core.code import code_digest

BASE = '''"""A module."""
from own.helper import help_out

SIGNS = {"a", "b", "c"}


def measure(x, factor=2):
    """Doubles a number."""
    try:
        return help_out(x) * factor
    except ValueError:
        return 0
'''
HELPER = "def help_out(x):\n    return x + 1\n"
Digest = Callable[..., str]


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digest:
    """The digest of own.module as it would be with this text."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("")
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    monkeypatch.setattr(code, "_OURS", ("own",))

    def of(module: str = BASE, helper: str = HELPER) -> str:
        (tmp_path / "own" / "module.py").write_text(module)
        (tmp_path / "own" / "helper.py").write_text(helper)
        code._read.cache_clear()
        code_digest.cache_clear()
        return code_digest("own.module")

    return of


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another description."""\n\n# and a remark\n'),
        ('    """Doubles a number."""\n', ""),
        ("factor=2):", "factor=2):  # twice"),
        ('SIGNS = {"a", "b", "c"}', 'SIGNS = {\n    "a",\n    "b",\n    "c",\n}'),
    ],
)
def test_words_and_layout_are_no_code(digest: Digest, old: str, new: str) -> None:
    assert old in BASE
    assert digest(BASE.replace(old, new)) == digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("factor=2", "factor=3"),
        ("* factor", "+ factor"),
        ('"c"', '"d"'),
        ("ValueError", "KeyError"),
        ("return 0", "return None"),
        ("help_out(x)", "x"),
        ("def measure(x, factor=2)", "def measure(x, *, factor=2)"),
    ],
)
def test_what_it_does_counts(digest: Digest, old: str, new: str) -> None:
    assert old in BASE
    assert digest(BASE.replace(old, new)) != digest()


def test_what_it_imports_counts_and_only_that(digest: Digest, tmp_path: Path) -> None:
    before = digest()
    assert digest(helper=HELPER.replace("+ 1", "- 1")) != before
    (tmp_path / "own" / "stranger.py").write_text("x = 1\n")
    assert digest() == before


def test_a_noun_of_the_core_counts_wherever_it_is_imported_from() -> None:
    """`from audit.core import Defense` reads audit/core/defense.py."""
    _, imported = code._read(Path(__file__).parent / "imports_a_noun.py", "tests.imports_a_noun")
    assert "audit.core.defense" in imported


def test_the_digest_is_that_of_every_process() -> None:
    """Sets of words have another order in each process."""
    script = "from audit.core.code import code_digest; print(code_digest('attacks.extraction'))"
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        assert made.stdout == code_digest("attacks.extraction") + "\n"


def test_a_mechanism_is_part_of_its_key() -> None:
    """The code that clips, samples and noises lies within what a private training's key reads."""
    seen = set()
    waiting = ["audit.models.training.dp_sgd"]
    while waiting:
        name = waiting.pop()
        path = code._path(name)
        if name not in seen and path is not None:
            seen.add(name)
            waiting += code._read(path, name)[1]
    assert {
        "audit.core.noise",
        "audit.core.randomness",
        "audit.models.training.per_example_gradients",
        "audit.models.training.examples",
    } <= seen
