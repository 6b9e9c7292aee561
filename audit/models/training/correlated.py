"""Noise of several steps that partly cancels: rows of C⁻¹Z, of a banded matrix factorization.

C is lower triangular and Toeplitz, its first column has b̂ numbers and norm 1. Z has independent
rows. Denisov et al. 2022 (arXiv 2202.08312); Choquette-Choo et al. 2023 (arXiv 2306.08153).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor

from audit.core.checkpoint import State
from audit.core.digest import sha256_of
from audit.models.training.resume import Part

PLAIN = (1.0,)  # one band: C is the identity, and every row is independent


@final
class Rows(Part):
    """Draws the rows of C⁻¹Z one after the other, for several parameters side by side.

    bands: the first column of C, b̂ numbers of norm at most 1, else ValueError. independent: draws a
    row of Z, like a parameter.
    """

    def __init__(self, bands: Sequence[float], independent: Callable[[Tensor], Tensor]) -> None:
        if not math.hypot(*bands) <= 1.0 + 1e-9:
            raise ValueError("a column of C is longer than 1, so one step would add too much")
        self._first, *self._others = bands
        self._independent = independent
        self._past: dict[int, list[Tensor]] = {}  # by parameter, the latest row first

    def drawn(self, place: int, like: Tensor) -> Tensor:
        """Draw the next row for the parameter at this place, by forward substitution."""
        row, past = self._independent(like), self._past.get(place, [])
        for band, before in zip(self._others, past, strict=False):
            row.sub_(before.to(row.device), alpha=band)  # those of a checkpoint are on the CPU
        if self._others:
            row.div_(self._first)
            self._past[place] = [row, *past][: len(self._others)]
        return row

    def state(self) -> State:
        return {f"{i}.{age}": row for i, of in self._past.items() for age, row in enumerate(of)}

    def restore(self, state: State) -> None:
        self._past = {}
        for name in sorted(state, key=lambda name: [*map(int, name.split("."))]):
            self._past.setdefault(int(name.partition(".")[0]), []).append(state[name].clone())


def group(name: str, key: int, groups: int) -> int:
    """Return the group, 0 … groups−1, of whoever has this name: by a keyed hash of it alone."""
    return int(sha256_of(f"{key}\x1f{name}"), 16) % groups
