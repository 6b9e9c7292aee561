"""Settings that a pyproject.toml may not set by itself: it may come with a stranger's checkout."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.core.reach import Reach
from audit.plugins import registry

_UNKNOWN = "is for you to decide"
_ADVICE = (
    "give it on the command line, in an AUDIT_ variable or in a plan file named there, "
    "or trust the file with --trust-config"
)


def untrusted(settings: Mapping[str, Any]) -> dict[str, str]:
    """List by setting why it needs the user's consent: what it could do.

    It runs code, loads another package's plugin, sends data away, reveals secrets, or reads or
    writes outside the working directory. A setting that is not named in `REASONS` needs consent.
    """
    reasons = {
        key: next(REASONS[key](value), "") if key in REASONS else _UNKNOWN
        for key, value in settings.items()
    }
    return {key: why for key, why in reasons.items() if why}


def ignored(path: Path, reasons: Mapping[str, str]) -> str:
    """Explain in one line which settings of a file are ignored, why, and what to do."""
    each = ", ".join(f"{key} ({why})" for key, why in reasons.items())
    return f"audit: {path}: ignored {each}; {_ADVICE}"


def author_runs_code(path: Path, settings: Mapping[str, Any]) -> str | None:
    """Name the code that a plan file runs, which is its author's; None where it runs none."""
    policy = str(settings.get("policy", "")).strip()
    if not any("runs code" in why for why in _of_policy(policy)):
        return None
    return f"audit: {path}: its policy {policy!r} is code, of whoever wrote this plan; it runs now"


def _harmless(value: Any) -> Iterator[str]:
    yield from ()


def _of_workers(value: Any) -> Iterator[str]:
    if not str(value).isdecimal():
        yield "Ray runs elsewhere"


def _of_silence(value: Any) -> Iterator[str]:
    usual = asdict(Reach())
    if not isinstance(value, Mapping):
        yield _UNKNOWN
    elif any(_is_looser(name, value[name], usual[name]) for name in usual if name in value):
        yield "makes finding no leak easier"


def _is_looser(name: str, given: Any, usual: float) -> bool:
    if not isinstance(given, int | float):
        return True
    return given < usual if name == "power" else given > usual


def _of_plugins(kind: str) -> Callable[[Any], Iterator[str]]:
    def reasons(value: Any) -> Iterator[str]:
        for text in value:
            yield from _of_plugin(kind, text)

    return reasons


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
    if not text:
        return
    if text.startswith("hf:") or "://" in text:
        yield "lies in the network"
        return
    here = Path.cwd().resolve()
    try:
        inside = (here / text).resolve().is_relative_to(here)
        leading = inside and any(not one.is_relative_to(here) for one in _links(here / text))
    except (OSError, RuntimeError, ValueError):  # no path, or an endless link
        inside = leading = False
    if not inside:
        yield "lies outside this folder"
    elif leading:
        yield "holds a link that leads outside this folder"


def _links(folder: Path) -> Iterator[Path]:
    """Yield where the links within a folder lead; none for a file."""
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            if path.is_symlink():
                yield path.resolve()


# what each setting could do, by its value; one that is not here needs consent, whatever its value
REASONS: dict[str, Callable[[Any], Iterator[str]]] = {
    "defense": _of_plugins("defenses"),
    "attack": _of_plugins("attacks"),
    "format": _of_plugins("reports"),
    **dict.fromkeys(("corpus", "model", "secrets", "output", "after"), _of_place),
    "policy": _of_policy,
    "workers": _of_workers,
    **dict.fromkeys(("epsilon", "delta", "seed", "device", "references", "remedies"), _harmless),
    **dict.fromkeys(("threads", "processes", "sharded", "looks", "until"), _harmless),
    **dict.fromkeys(("utility_tokens", "lora", "release", "coin_users"), _harmless),
    **dict.fromkeys(("planting", "training"), _harmless),
    "silence": _of_silence,
    **dict.fromkeys(("text", "user", "messages", "split", "records", "user_form"), _harmless),
}
