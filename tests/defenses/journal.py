"""A journal in memory, for sessions of ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Memory:
    """Keeps its rows, which a killed process may have written."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: bytes = b"a key of the folder's own"

    def previous(self) -> Sequence[dict[str, Any]]:
        return list(self.rows)

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        self.rows += rows
