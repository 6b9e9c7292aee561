"""Settings that a pyproject.toml may not set by itself: it may come with a stranger's checkout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.plugins import registry

_PLUGINS = {"defense": "defenses", "attack": "attacks", "format": "reports"}
_PATHS = ("corpus", "model", "secrets", "output")
_ADVICE = (
    "give it on the command line, in an AUDIT_ variable or in a plan file named there, "
    "or trust the file with --trust-config"
)


def untrusted(settings: Mapping[str, Any]) -> dict[str, str]:
    """List by setting why it needs the user's consent: what it could do.

    It runs code, loads another package's plugin, sends data away, or reads or writes outside the
    working directory.
    """
    reasons = {key: next(_reasons(key, value), "") for key, value in settings.items()}
    return {key: why for key, why in reasons.items() if why}


def ignored(path: Path, reasons: Mapping[str, str]) -> str:
    """Explain in one line which settings of a file are ignored, why, and what to do."""
    each = ", ".join(f"{key} ({why})" for key, why in reasons.items())
    return f"audit: {path}: ignored {each}; {_ADVICE}"


def _reasons(key: str, value: Any) -> Iterator[str]:
    if key in _PLUGINS:
        for text in value:
            yield from _of_plugin(_PLUGINS[key], text)
    elif key in _PATHS:
        yield from _of_place(value)
    elif key == "policy":
        yield from _of_policy(value)
    elif key == "workers" and not str(value).isdecimal():
        yield "Ray runs elsewhere"


def _of_plugin(kind: str, text: str) -> Iterator[str]:
    name, _, rest = (part.strip() for part in text.partition(":"))
    others = registry.of_others(kind)
    if name in others or (name == "all" and others):
        yield f"{name} loads another package"
    for pair in rest.split(","):
        yield from _of_place(pair.partition("=")[2].strip())


def _of_policy(text: str) -> Iterator[str]:
    head, *options = (part.strip() for part in text.split(","))
    name, _, argument = (part.strip() for part in head.partition(":"))
    if name == "python" or any(option.startswith("pipeline") for option in options):
        yield f"{name} runs code"
    yield from _of_place(argument)


def _of_place(text: str) -> Iterator[str]:
    """Explain where a value leads out of the working directory; a plain word stays inside."""
    if text.startswith("hf:") or "://" in text:
        yield "lies in the network"
        return
    here = Path.cwd().resolve()
    try:
        inside = (here / text).resolve().is_relative_to(here)
    except (OSError, RuntimeError, ValueError):  # no path, or an endless link
        inside = False
    if not inside:
        yield "lies outside this folder"
