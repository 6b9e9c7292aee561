"""Hash the code that makes a result, so that a result of other code is never taken for it.

A repaired fault in a mechanism must not leave a model of the old code under the new promise. What
counts is compiled code: comments, docstrings and layout do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from audit.core import HOME
from audit.core.digest import digest_of_json, sha256_of

_OURS = ("audit", "attacks", "defenses")
_ROOT = Path(__file__).parents[2]


@cache
def code_digest(*modules: str) -> str:
    """Compute SHA-256 of these modules and of all that they import from their own packages.

    The code of other libraries is not read: their versions belong into a key themselves.
    """
    seen: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = None if name in seen else _path(name)
        if path is not None:
            seen[name], imported = _read(path, name)
            waiting += imported
    return digest_of_json(seen)


@cache
def _read(path: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a module's code, and what it may import from packages like its own."""
    tree = ast.parse(path.read_bytes())
    for node in _statements(tree):
        _strip(node)
    code = compile(tree, "", "exec", dont_inherit=True)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    own = (*_OURS, name.partition(".")[0])
    imported = (_at_home(one) for one in imports(tree, package) if one.partition(".")[0] in own)
    return sha256_of(repr(list(_parts(code)))), tuple(dict.fromkeys(imported))


def _strip(node: ast.AST) -> None:
    """Remove the docstring of a module, class or function."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:] or [ast.Pass(lineno=1, col_offset=0)]


def _at_home(name: str) -> str:
    """Name the module of a noun that is imported from audit.core itself."""
    package, _, noun = name.rpartition(".")
    return f"{package}.{HOME[noun]}" if package == "audit.core" and noun in HOME else name


def _parts(code: CodeType) -> Iterator[object]:
    """Yield all of a code object that decides its effect, and nothing of its place."""
    yield code.co_name, code.co_code.hex(), code.co_exceptiontable.hex(), code.co_flags
    yield code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    yield code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
        elif isinstance(constant, frozenset):  # its order differs between processes
            yield sorted(map(repr, constant))
        else:
            yield constant


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a syntax tree imports, and their imported members, by full name.

    package: package of the source, for relative imports.
    """
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (parent, node.module)))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements, which alone import or have docstrings; expressions are most nodes."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())


def _path(module: str) -> Path | None:
    """Find a module's file; None where there is none of this name."""
    if module.partition(".")[0] in _OURS:
        path = _ROOT.joinpath(*module.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in files if file.is_file()), None)
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError):  # a name in a module is looked for like a module
            return None
        loaded = spec.origin if spec else None
    source = Path(loaded or "")
    return source if source.suffix == ".py" and source.is_file() else None
