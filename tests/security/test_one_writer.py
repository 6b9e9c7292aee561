"""Every file that the packages write is written by one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
WRITER = PROJECT / "audit" / "core" / "writing.py"
FILES = [
    path
    for package in ("audit", "attacks", "defenses", "reports")
    for path in sorted((PROJECT / package).rglob("*.py"))
]
METHODS = {
    *("write_text", "write_bytes", "touch", "mkdir", "makedirs", "rename", "renames", "chmod"),
    *("hardlink_to", "rmtree", "copyfile", "copytree", "copy2", "copymode", "truncate", "mkfifo"),
    *("save_file", "save_model", "save_pretrained", "savefig", "to_csv", "to_parquet"),
}
OF_OS = {"open", "mkdir", "makedirs", "replace", "rename", "link", "symlink", "remove", "unlink"}
NAMES_OF_FILES = ("NamedTemporaryFile", "TemporaryDirectory", "mkdtemp", "mkstemp")
ALLOWED = {  # by file: what it may do beside, and why
    "audit/callback.py": {"save_pretrained"},  # into a folder that was just made
    "audit/contract/defenses.py": {"TemporaryDirectory"},  # of the system
    "audit/models/external_model.py": {"save_pretrained"},  # as above
    "audit/models/gguf_file.py": {"save_pretrained"},  # as above
    "audit/models/new_rows.py": {"save_pretrained"},  # as above
    "audit/run/sweep/sweep.py": {"symlink_to"},  # of each seed's stages
    "audit/train/checkpoint.py": {"save_file"},  # to the name that `replacing` gives
    "audit/train/train.py": {"save_file", "save_model"},  # as above
    "audit/verify/frozen.py": {"TemporaryDirectory"},  # of the system
    "reports/_figures/paper.py": {"savefig"},  # into memory
}


def written(path: Path) -> Iterator[str]:
    """The calls of a module that write or remove something."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        words = [a.value for a in node.args if isinstance(a, ast.Constant)]
        words += [k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)]
        modes = [w for w in words if isinstance(w, str) and set(w) <= set("rwaxbt+") and w]
        if name == "open" and any(set(mode) & set("wax+") for mode in modes):
            yield "open for writing"
        if called.startswith(("os.", "shutil.")) and name in {*OF_OS, "copy", "move"}:
            yield called
        elif name in {*METHODS, *NAMES_OF_FILES, "symlink_to"}:
            yield name


def test_one_module_writes_files() -> None:
    found = {
        path.relative_to(PROJECT).as_posix(): set(written(path))
        for path in FILES
        if path != WRITER and set(written(path))
    }
    assert found == ALLOWED


def test_reader_of_calls_sees_writers() -> None:
    assert {"os.open", "mkdir", "rmtree", "copyfile"} <= set(written(WRITER))
