"""Counts of a training's steps: how often each token of each text was in the loss.

A training knows no secret and no coin, so it counts all tokens alike. Who knows where the planted
values stand looks them up afterwards, and spends no query on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np


class Piece(NamedTuple):
    """Consecutive tokens of one text that a step reads.

    text: its place among the texts of the training. first: place of the first of the tokens in the
    text, where 0 is the start token. learned: one byte a token, 1 where it is in the loss.
    """

    text: int
    first: int
    learned: bytes


@final
class Counts:
    """Counts of one training, in which only a step that moved the weights counts.

    Counting reads no random number and changes no weight.
    """

    def __init__(self) -> None:
        self._pieces: Counter[Piece] = Counter()
        self._losses: list[float] = []

    def step(self, pieces: Iterable[Piece], moved: bool) -> None:
        """Count what contributed to a step. moved: whether its gradient moved the weights."""
        if moved:
            self._pieces.update(pieces)

    def loss(self, value: float) -> None:
        """Note the mean loss of a step, before it is made (nats)."""
        self._losses.append(value)

    @property
    def learning(self) -> tuple[float, float] | None:
        """The mean loss over the first and over the last quarter of the steps; None: not noted."""
        some = -(-len(self._losses) // 4)
        if not some:
            return None
        first, last = self._losses[:some], self._losses[-some:]
        return sum(first) / some, sum(last) / some

    def of_texts(self) -> dict[int, list[list[int]]]:
        """Return by text its runs of equally often learnt tokens, each [first, last, count]."""
        sizes: dict[int, int] = {}
        for piece in self._pieces:
            end = piece.first + len(piece.learned)
            sizes[piece.text] = max(end, sizes.get(piece.text, 0))
        tokens = {text: np.zeros(size, dtype=np.int64) for text, size in sizes.items()}
        for piece, times in self._pieces.items():
            here = tokens[piece.text][piece.first : piece.first + len(piece.learned)]
            here += times * np.frombuffer(piece.learned, dtype=np.uint8)
        return {text: _runs(tokens[text]) for text in sorted(tokens)}

    def state(self) -> dict[str, Any]:
        """Return all of it as JSON values, for a checkpoint."""
        pieces = [[p.text, p.first, p.learned.hex(), n] for p, n in self._pieces.items()]
        return {"pieces": pieces, "losses": self._losses}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a result of `state`."""
        self._losses = list(state["losses"])
        self._pieces = Counter(
            {Piece(text, first, bytes.fromhex(how)): n for text, first, how, n in state["pieces"]}
        )


def _runs(tokens: np.ndarray) -> list[list[int]]:
    ends = [*np.flatnonzero(np.diff(tokens)).tolist(), len(tokens) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    runs = zip(starts, ends, strict=True)
    return [[low, high, n] for low, high in runs if (n := int(tokens[low]))]


def least(runs: Sequence[Sequence[int]], tokens: Sequence[int]) -> int:
    """Return how often the least learnt of these tokens of a text was learnt. runs: of the text."""
    return min(
        (sum(n for low, high, n in runs if low <= token <= high) for token in tokens), default=0
    )
