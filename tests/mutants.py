"""Plants errors into the code, one at a time, and lists those that no default test notices.

    python tests/mutants.py    # 60 of the mathematics and 40 of verdicts
    python tests/mutants.py --targets audit/gate --count 10 --seed 3
    python tests/mutants.py --named batch_of endless    # of tests/mutants.toml; without names, all

Each mutant changes one operator, comparison, constant or condition in a copy of the tree. Tests of
the mutated file run first, then those of its room, then the whole default suite. Equivalent mutants
stand in tests/mutants.toml with the reason; they are not drawn.
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
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LIST = PROJECT / "tests" / "mutants.toml"
MATHEMATICS = (
    "audit/statistics",
    "audit/accounting",
    "audit/core/ledger.py",
    "audit/models/training/per_example_gradients.py",
    "audit/models/training/dp_sgd.py",
    "audit/planting/planting.py",
    "audit/planting/insertion.py",
)
VERDICTS = ("audit/findings", "audit/gate", "audit/verify")
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


@dataclass(frozen=True)
class Mutant:
    """A change of one expression; `at` is its first byte in the file."""

    path: Path
    at: int
    old: str
    new: str

    def __str__(self) -> str:
        line = self.path.read_bytes()[: self.at].count(b"\n") + 1
        return (
            f"{self.path.relative_to(PROJECT)}:{line}  {' '.join(self.old.split())}  →  {self.new}"
        )

    @property
    def source(self) -> str:
        """Changes the file's text."""
        data = self.path.read_bytes()
        end = self.at + len(self.old.encode())
        return (data[: self.at] + self.new.encode() + data[end:]).decode()


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


def mutants_of(target: str) -> Iterator[Mutant]:
    """Lists all mutants of a file or folder."""
    place = PROJECT / target
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        source = path.read_text(encoding="utf-8")
        lines = source.encode().splitlines(keepends=True)
        for node, other in changes(ast.parse(source)):
            text = ast.get_source_segment(source, node)
            if text is not None:
                at = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
                yield Mutant(path, at, text, f"({ast.unparse(other)})")


def drawn(targets: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Draws different mutants, none of which is listed as equivalent."""
    equivalent = {(m.path, m.at) for m, reason in listed() if reason}
    found = [m for t in targets for m in mutants_of(t) if (m.path, m.at) not in equivalent]
    return random.Random(seed).sample(found, min(count, len(found)))


def listed(names: Sequence[str] = ()) -> list[tuple[Mutant, str]]:
    """Reads mutants.toml: mutants and, of the equivalent, the reason; without names, all."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))
    unknown = set(names) - set(entries)
    if unknown:
        sys.exit(f"{LIST.name} has no {', '.join(sorted(unknown))}")
    return [
        (_placed(name, entry), entry.get("equivalent", ""))
        for name, entry in entries.items()
        if name in names or not names
    ]


def _placed(name: str, entry: dict[str, str]) -> Mutant:
    path = PROJECT / entry["file"]
    source = path.read_text(encoding="utf-8") if path.exists() else ""
    if source.count(entry["old"]) != 1:
        sys.exit(f"{name}: {entry['file']} must hold {entry['old']!r} exactly once")
    at = len(source[: source.index(entry["old"])].encode())
    return Mutant(path, at, entry["old"], entry["new"])


def tests_of(path: Path) -> list[list[str]]:
    """Lists the tests to run, nearest first: of the file, of its room, all."""
    top, *rooms, _ = path.relative_to(PROJECT).parts
    room = Path("tests", *(rooms[:1] if top == "audit" else [top]))
    folder = PROJECT / room
    own = sorted(str(p.relative_to(PROJECT)) for p in folder.rglob(f"test_{path.stem}*.py"))
    near = [["-n", "0", *own]] if own else []  # workers take longer to start
    if folder.is_dir() and room != Path("tests"):
        near.append([str(room)])
    return [*near, ["tests"]]


def survives(mutant: Mutant, tree: Path, near: bool) -> bool:
    """Runs the default tests on the copied tree with this mutant; True where all of them pass."""
    copy = tree / mutant.path.relative_to(PROJECT)
    original = copy.read_text(encoding="utf-8")
    copy.write_text(mutant.source, encoding="utf-8")
    os.utime(copy, (mutant.at, mutant.at))  # compiled files are told apart by time and size
    try:
        for words in tests_of(mutant.path)[: -1 if near else None]:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *words]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
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


def wanted() -> tuple[list[Mutant], bool]:
    """Reads the command line: the mutants to try, and whether near tests are enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", nargs="+", help="files and folders to draw from")
    parser.add_argument("--count", type=int, default=60, help="how many mutants of the targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--named", nargs="*", help="of tests/mutants.toml; all without names")
    parser.add_argument("--near", action="store_true", help="without the whole suite at the end")
    given = parser.parse_args()
    if given.named is not None:
        return [mutant for mutant, reason in listed(given.named) if not reason], given.near
    if given.targets:
        return drawn(given.targets, given.count, given.seed), given.near
    chosen = [*drawn(MATHEMATICS, 60, given.seed), *drawn(VERDICTS, 40, given.seed)]
    return chosen, given.near


def main() -> None:
    """Prints a line a mutant, and the survivors at the end; exits with 1 where there are any."""
    mutants, near = wanted()
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".*", "audits", "__pycache__", "site")
        shutil.copytree(PROJECT, tree, ignore=ignored)
        for number, mutant in enumerate(mutants, 1):
            alive = survives(mutant, tree, near)
            print(f"{number:3} {'SURVIVES' if alive else 'dies    '} {mutant}", flush=True)
            survivors += [mutant] if alive else []
    print(f"{len(survivors)} of {len(mutants)} survive", *survivors, sep="\n")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
