"""Docstrings as Markdown: each field `name: meaning` becomes an item of a list."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from griffe import Class, Extension, Function, Object

NAMES = r"([a-z_]\w*(?:, [a-z_]\w*)*): "
FIELD = re.compile(rf"^{NAMES}(.+)$")


def parsed(docstring: str, known: Collection[str] = ()) -> list[tuple[str, str]]:
    """The paragraphs of a docstring in order: ("", text), or (names, meaning) for a field.

    known: names that may begin a field within a line, too, after the end of a sentence. A line
    that follows a field belongs to it until a blank line or the next field.
    """
    parts: list[tuple[str, str]] = []
    new = True
    for line in _broken(docstring, known).splitlines():
        field = FIELD.match(line.strip())
        if not line.strip():
            new = True
        elif field:
            parts.append((field[1], field[2]))
            new = False
        elif new:
            parts.append(("", line))
            new = False
        else:
            name, text = parts[-1]
            parts[-1] = (name, f"{text} {line.strip()}" if name else f"{text}\n{line}")
    return parts


def _broken(docstring: str, known: Collection[str]) -> str:
    """The docstring with a new line before each field of a known name."""

    def apart(match: re.Match[str]) -> str:
        fields = set(match[1].split(", ")) <= set(known)
        return f"\n{match[0].lstrip()}" if fields else match[0]

    return re.sub(rf"(?<=[.;)])\s+{NAMES}", apart, docstring)


def markdown(docstring: str, known: Collection[str] = ()) -> str:
    """The docstring with its fields as a list."""
    lines, listed = [], False
    for name, text in parsed(docstring, known):
        if not (name and listed):
            lines.append("")
        listed = bool(name)
        code = ", ".join(f"`{one}`" for one in name.split(", "))
        lines.append(f"- {code}: {text}" if name else text)
    return "\n".join(lines).strip()


class Fields(Extension):
    """Rewrites every docstring as griffe loads it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is None:
            return
        known: set[str] = set()
        if isinstance(obj, Class):
            known = set(obj.members)
        elif isinstance(obj, Function):
            known = {parameter.name for parameter in obj.parameters}
        obj.docstring.value = markdown(obj.docstring.value, known)
