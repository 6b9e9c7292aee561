"""The parts of results.json: frozen, of known fields alone, and with words of fixed lists."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, WithJsonSchema


def words_of(words: type[StrEnum]) -> WithJsonSchema:
    """Return the JSON Schema of a fixed list of words, in place."""
    return WithJsonSchema({"enum": [*map(str, words)], "type": "string"})


class Strict(BaseModel):
    """A part of results.json: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def changed(self, **fields: Any) -> Self:
        """Copy it with other fields, whose numbers are rounded as all are."""
        return type(self)(**{**dict(self), **fields})
