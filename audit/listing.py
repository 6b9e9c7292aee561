"""What `audit list` shows."""

from __future__ import annotations

from typing import Any

from audit import plugins
from audit.embedded import EMBEDDED_FOLDER
from audit.errors import UsageError


def entries(kind: str) -> list[dict[str, Any]]:
    """Objects with at least `name`, and where it makes sense `summary`, `parameters`, `path`."""
    if kind in ("defenses", "attacks"):
        return [_plugin(kind, name) for name in plugins.names(kind)]
    if kind == "policies":
        from audit.policies import names, policy_class

        return [{"name": n, "summary": _first(policy_class(n).__doc__)} for n in names()]
    if kind == "corpora":
        from audit.corpus import NAMES

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
    from audit.attack import Attack
    from audit.defense import Defense

    ancestor: type[Any] = Defense if kind == "defenses" else Attack
    try:
        cls = plugins.plugin(kind, name, ancestor)
    except UsageError as error:  # another's plugin is no reason not to list the rest
        return {"name": name, "summary": str(error)}
    return {
        "name": name,
        "summary": _first(cls.__doc__),
        "parameters": plugins.parameters(kind, name, ancestor),
    }


def _first(text: str | None) -> str:
    return (text or "").strip().split("\n")[0].rstrip(".")
