"""What a module imports, read from its source: nothing is run to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

HEAVY = ("torch", "transformers", "matplotlib", "typst")
COINS = tuple(f"audit.secrets.{name}" for name in ("Coins", "Planted", "plant", "trained_on"))


def imported(source: str, package: str = "", top_only: bool = False) -> frozenset[str]:
    """Names of the modules, and of what is imported from them.

    package: what relative imports start from. top_only: only what is imported with the module,
    not what its functions import when they are called, nor what only a type checker sees.
    """
    found: set[str] = set()
    for node in _statements(ast.parse(source), top_only):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (parent, node.module)))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(found)


def within(found: frozenset[str], *targets: str) -> list[str]:
    """Those of the imports that are one of the targets or lie inside it."""
    return sorted(
        name
        for name in found
        if any(name == target or name.startswith(f"{target}.") for target in targets)
    )


def _statements(node: ast.AST, top_only: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        if top_only and (function or _for_type_checkers(child)):
            continue
        yield child
        yield from _statements(child, top_only)


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
