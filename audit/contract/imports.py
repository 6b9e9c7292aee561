"""Reads from its source what a module imports, without running it."""

from __future__ import annotations

import ast

from audit.core import HOME


def nouns(*files: str) -> tuple[str, ...]:
    """Lists the modules of these nouns, their names in earlier versions, and each noun."""
    old = {"secret": "secrets"}
    return (
        *(f"audit.core.{file}" for file in files),
        *(f"audit.{old.get(file, file)}" for file in files),
        *(f"audit.core.{name}" for name, home in HOME.items() if home in files),
    )


COINS = (
    *(
        f"audit.{file}.{noun}"
        for file in ("core.secret", "secrets")
        for noun in ("Coins", "Planted")
    ),
    "audit.canaries",
)


def imported(source: str, package: str = "") -> frozenset[str]:
    """Collects the names of imported modules, and of their imported members.

    package: package of the source, for relative imports.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (parent, node.module)))
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(names)


def within(imports: frozenset[str], *targets: str) -> list[str]:
    """Selects the imports that are one of the targets or inside it."""
    return sorted(
        name
        for name in imports
        if any(name == target or name.startswith(f"{target}.") for target in targets)
    )
