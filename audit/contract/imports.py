"""What a module imports, read from its source: nothing is run to find out."""

from __future__ import annotations

import ast

from audit.core import HOME


def nouns(*files: str) -> tuple[str, ...]:
    """Modules of these nouns: where they are, where earlier versions had them, and each noun."""
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
    """Names of the modules, and of what is imported from them.

    package: what relative imports start from.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
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
