"""results.json: the results themselves, which every run writes before any report."""

from __future__ import annotations

from dataclasses import dataclass

from reports import Format, Report


@dataclass(frozen=True)
class Json(Format):
    """The results alone: results.json is there already, so this format adds no file."""

    def files(self, report: Report) -> dict[str, bytes]:
        return {}
