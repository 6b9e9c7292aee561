"""Reads the tables beside this file: the sources with their rows, and the attacks."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_HERE = Path(__file__).parent
SOURCES = ("edpb", "nist", "aisvs")
Wording = Literal["checked wording", "unchecked wording"]


@dataclass(frozen=True)
class Asked:
    """A row before any run: what is asked for, and which evidence answers it.

    families: of attacks; none: any. access: text, probabilities, or empty for both. partial:
    whether the attacks cover it in part only, so that finding no leak shows nothing.
    """

    key: str
    section: str
    title: str
    requirement: str
    compared: str
    evidence: str
    wording: Wording = "unchecked wording"
    note: str = ""
    families: tuple[str, ...] = ()
    access: str = ""
    partial: bool = False


@dataclass(frozen=True)
class Text:
    """A source before any run."""

    key: str
    title: str
    publisher: str
    edition: str
    url: str
    reached: str
    rows: tuple[Asked, ...]


@dataclass(frozen=True)
class Known:
    """An attack of this version."""

    families: tuple[str, ...]
    does: str
    knows: str


def sources() -> list[Text]:
    """Read the sources in their order."""
    return [_text(_table(name)) for name in SOURCES]


def attacks() -> dict[str, Known]:
    """Read the attacks of this version, by name."""
    return {name: Known(**_tuples(table)) for name, table in _table("attacks").items()}


def _text(table: dict[str, Any]) -> Text:
    rows = tuple(Asked(**_tuples(row)) for row in table.pop("rows"))
    return Text(**table, rows=rows)


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((_HERE / f"{name}.toml").read_text(encoding="utf-8"))
