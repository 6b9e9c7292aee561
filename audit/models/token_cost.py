"""The time and memory that a token takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenCost:
    """The time and memory that one process takes for a token.

    training: seconds of a pass forward and back. query: seconds of an attack's query of one model.
    kept: bytes that the blocks keep for the way back; what the head keeps is not counted.
    """

    training: float
    query: float
    kept: float
