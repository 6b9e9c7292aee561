"""Plants errors into the mathematics, one at a time, and lists those that no default test notices.

    python tests/mutants.py --count 60 --seed 0

Each mutant changes one operator, comparison, constant or condition in a copy of the tree. Tests of
the mutated file run first, then those of its room, then the whole default suite.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[1]
TARGETS = (
    "audit/statistics",
    "audit/accounting",
    "audit/core/ledger.py",
    "audit/models/training/per_example_gradients.py",
    "audit/models/training/dp_sgd.py",
    "audit/canaries/planting.py",
    "audit/canaries/insertion.py",
)
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "any": "all", "all": "any"}


def changes(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of an expression and what a mutant puts in its place. Error checks are left alone."""
    for node in _code(tree):
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
            yield node, ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)  # type: ignore[arg-type]
        elif isinstance(node, ast.BoolOp):
            yield node, ast.BoolOp(SWAPS[type(node.op)](), node.values)  # type: ignore[arg-type]
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            ops = [SWAPS[type(node.ops[0])](), *node.ops[1:]]
            yield node, ast.Compare(node.left, ops, node.comparators)  # type: ignore[arg-type]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            whole = type(node.value) is int
            yield node, ast.Constant(node.value + 1 if whole else _more(node.value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield node, node.operand
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            head, dot, tail = name.rpartition(".")
            if tail in NAMES:
                other = ast.parse(f"{head}{dot}{NAMES[tail]}", mode="eval").body
                yield node, ast.Call(other, node.args, node.keywords)


def _more(value: float) -> float:
    return 2 * value or 1.0


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of error messages, annotations and defaults of dataclass fields."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(child, ast.AnnAssign):
            if child.value is not None:
                yield from _code(child)
            continue
        yield child
        yield from _code(child)


def drawn(count: int, seed: int) -> list[tuple[Path, int, str, str]]:
    """(file, line, source, mutated source) of so many different mutants."""
    found = []
    for target in TARGETS:
        place = PROJECT / target
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            source = path.read_text(encoding="utf-8")
            for node, other in changes(ast.parse(source)):
                text = ast.get_source_segment(source, node)
                if text is not None:
                    new = f"({ast.unparse(other)})"
                    found.append((path, node.lineno, node.col_offset, text, new))
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    return [
        (path, line, *_mutated(path, line, at, old, new)) for path, line, at, old, new in chosen
    ]


def _mutated(path: Path, line: int, column: int, old: str, new: str) -> tuple[str, str]:
    """(what is changed, the whole file with it)."""
    data = path.read_bytes()
    start = sum(len(one) for one in data.splitlines(keepends=True)[: line - 1]) + column
    whole = data[:start] + new.encode() + data[start + len(old.encode()) :]
    return f"{' '.join(old.split())}  →  {new}", whole.decode()


def tests_of(path: Path) -> list[list[str]]:
    """The tests to run, nearest first: of the file, of its room, all."""
    room = path.relative_to(PROJECT / "audit").parts
    own = sorted(str(p) for p in (PROJECT / "tests").rglob(f"test_{path.stem}*.py"))
    folder = PROJECT / "tests" / Path(*room[:-1])
    rounds = [[str(Path(p).relative_to(PROJECT)) for p in own], []]
    if folder.is_dir():
        rounds[1] = [str(folder.relative_to(PROJECT))]
    return [*filter(None, rounds), ["tests"]]


def survives(path: Path, source: str, tree: Path, near: bool) -> bool:
    """Whether every default test passes with this mutant in the copied tree."""
    copy = tree / path.relative_to(PROJECT)
    original = copy.read_text(encoding="utf-8")
    copy.write_text(source, encoding="utf-8")
    try:
        for words in tests_of(path)[: -1 if near else None]:
            command = [sys.executable, "-m", "pytest", "-x", "-q", *words]
            environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
            ran = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, timeout=900
            )
            if ran.returncode not in (0, 5):  # 5: nothing of it is in the default suite
                return False
        return True
    except subprocess.TimeoutExpired:
        return False  # an endless loop is noticed
    finally:
        copy.write_text(original, encoding="utf-8")


def main() -> None:
    """Prints a line a mutant, and the survivors at the end; exits with 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--near", action="store_true", help="without the whole suite at the end")
    wanted = parser.parse_args()
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".*", "audits", "__pycache__", "site")
        shutil.copytree(PROJECT, tree, ignore=ignored)
        for number, (path, line, change, source) in enumerate(drawn(wanted.count, wanted.seed), 1):
            where = f"{path.relative_to(PROJECT)}:{line}"
            alive = survives(path, source, tree, wanted.near)
            print(f"{number:3} {'SURVIVES' if alive else 'dies    '} {where}  {change}", flush=True)
            survivors += [f"{where}  {change}"] if alive else []
    print(f"{len(survivors)} of {wanted.count} survive", *survivors, sep="\n")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
