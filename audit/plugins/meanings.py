"""Read what the parameters of a plugin mean from its docstring."""

from __future__ import annotations

import re
from collections.abc import Collection

_INTERNAL = re.compile(r"; set by (the run|--)")


def meanings(docstring: str, names: Collection[str]) -> dict[str, str]:
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


def is_internal(meaning: str) -> bool:
    """Return whether a parameter is set by the run or an option, and never given as one."""
    return bool(_INTERNAL.search(meaning))
