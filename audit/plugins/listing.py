"""List what there is. Plugins are read from their source, so nothing heavy is imported."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.corpora.loading import NAMES
from audit.plugins import registry
from audit.policies import names, source_of

_ANCESTOR = {"defenses": "Defense", "attacks": "Attack"}
_INTERNAL = re.compile(r"; set by (the run|--)")  # of a parameter that is never given as one


def entries(kind: str) -> list[dict[str, Any]]:
    """List objects with at least `name`; where it makes sense `summary`, `parameters`, `path`."""
    if kind in _ANCESTOR:
        return [_plugin(kind, name) for name in registry.names(kind)]
    if kind == "policies":
        classes = {name: _class(_tree(source_of(name)), "Policy") for name in names()}
        return [{"name": name, "summary": _first_line(cls)} for name, cls in classes.items()]
    if kind == "corpora":
        return [
            {"name": n, "summary": about, "path": str(EMBEDDED_FOLDER / f"{n}.jsonl")}
            for n, about in NAMES.items()
        ]
    return [
        {
            "name": "embedded",
            "summary": "a tiny public GPT-2 that comes with audit",
            "path": str(EMBEDDED_FOLDER / "public_model"),
        },
        {"name": "lstm", "summary": "one LSTM layer of 200, trained from scratch"},
    ]


def _plugin(kind: str, name: str) -> dict[str, Any]:
    try:
        tree = _tree(registry.source(kind, name))
        if not (cls := _class(tree, _ANCESTOR[kind])):
            registry.module(kind, name)  # the reason why it cannot be used
            raise UsageError(f"its module defines no one class that derives from {_ANCESTOR[kind]}")
        defaults = {key: _value(default, tree) for key, default in _fields(cls)}
        explained = _meanings(ast.get_docstring(cls) or "", defaults)
        shown = [key for key in defaults if not _INTERNAL.search(explained.get(key, ""))]
        return {
            "name": name,
            "summary": _first_line(cls),
            "parameters": {key: defaults[key] for key in shown},
            "meanings": {key: explained.get(key, "") for key in shown},
        }
    except (UsageError, ValueError) as error:  # one broken plugin does not hide the rest
        return {"name": name, "summary": str(error)}


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); mend or uninstall it") from None


def _class(tree: ast.Module, ancestor: str) -> ast.ClassDef | None:
    """Find the one class of a module that derives from `ancestor`; None if there is none.

    Abstract classes between them end in the same word, as EnsembleDefense does.
    """
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(ancestor) for base in node.bases)
    ]
    return classes[0] if len(classes) == 1 else None


def _first_line(cls: ast.ClassDef | None) -> str:
    return ((cls and ast.get_docstring(cls)) or "").strip().split("\n")[0].rstrip(".")


def _fields(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Name and default of each field of a dataclass, as written."""
    for node in cls.body:
        if not isinstance(node, ast.AnnAssign) or "ClassVar" in ast.unparse(node.annotation):
            continue
        if isinstance(node.target, ast.Name):
            yield node.target.id, node.value


def _value(default: ast.expr | None, tree: ast.Module) -> Any:
    """Evaluate a default's expression. Raises ValueError where it is not a plain value."""
    if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("field"):
        default = next((k.value for k in default.keywords if k.arg == "default"), None)
    if isinstance(default, ast.Name):
        return _constant(default.id, tree)
    return None if default is None else ast.literal_eval(default)


def _constant(name: str, tree: ast.Module) -> Any:
    """Return the value of a constant of this module, or of the one that it is imported from."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
            return ast.literal_eval(node.value)
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if any((alias.asname or alias.name) == name for alias in node.names):
            spec = importlib.util.find_spec(node.module)
            if spec is not None and spec.origin is not None:
                return _constant(name, _tree(Path(spec.origin)))
    raise ValueError(f"{name} is no plain value")


def _meanings(docstring: str, names: Collection[str]) -> dict[str, str]:
    """Find the sentence after each `name:` that opens a line; a name without one is left out.

    A sentence goes on in the lines that are indented deeper.
    """
    found: dict[str, str] = {}
    current, depth = "", 0
    for line in docstring.split("\n"):
        name, colon, rest = line.strip().partition(":")
        indent = len(line) - len(line.lstrip())
        if colon and name in names and (not current or indent <= depth):
            current, depth = name, indent
            found[name] = rest.strip()
        elif current and line.strip() and indent > depth:
            found[current] += f" {line.strip()}"
        else:
            current = ""
    return found
