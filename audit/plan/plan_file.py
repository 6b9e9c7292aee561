"""Writes settings as the plan file that gives them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_toml(settings: Mapping[str, Any]) -> str:
    """Format settings as TOML: plain values first, then each table, then tables within it.

    Values may be text, numbers, truth values and lists of them; None is left out.
    """
    return "\n".join(_lines(settings, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    known = {key: value for key, value in table.items() if value is not None}
    tables = {key: value for key, value in known.items() if isinstance(value, Mapping)}
    plain = [f"{_key(key)} = {_value(known[key])}" for key in known if key not in tables]
    head = [f"[{'.'.join(map(_key, path))}]"] if path and (plain or not tables) else []
    lines = [*head, *plain]
    for key, inner in tables.items():
        lines += ["", *_lines(inner, (*path, key))] if lines else _lines(inner, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return _text(str(value)) if not isinstance(value, (int, float)) else repr(value)


def _text(text: str) -> str:
    """Quote text: JSON's escapes are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
