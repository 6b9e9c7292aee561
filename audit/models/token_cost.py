"""What a token takes of time and memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenCost:
    """What one process takes for a token.

    training: seconds of a pass forward and back. kept: bytes that the blocks keep for the way back;
        what the head keeps is not counted.
    """

    training: float
    kept: float
