"""Read from its source what a module imports, without running it."""

from __future__ import annotations

import ast

from audit.core import HOME
from audit.core.code import imports


def nouns(*files: str) -> tuple[str, ...]:
    """List the modules of these nouns, and each noun."""
    return (
        *(f"audit.core.{file}" for file in files),
        *(f"audit.core.{name}" for name, home in HOME.items() if home in files),
    )


COINS = ("audit.core.secret.Coins", "audit.core.secret.Planted", "audit.planting")


def imported(source: str, package: str = "") -> frozenset[str]:
    """Collect the names of imported modules, and of their imported members.

    package: package of the source, for relative imports.
    """
    tree = ast.parse(source)
    names = set(imports(tree, package))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(names)


def within(imports: frozenset[str], *targets: str) -> list[str]:
    """Select the imports that are one of the targets or inside it."""
    return sorted(
        name
        for name in imports
        if any(name == target or name.startswith(f"{target}.") for target in targets)
    )
