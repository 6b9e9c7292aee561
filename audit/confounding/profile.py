"""The profile of users in one respect: a row of shares each, which a test compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from audit.statistics.unlike import Norm

_EDGES = 256  # thresholds of a cumulative row

Table = NDArray[np.float64]
Texts = tuple[str, ...]  # of one user


class Check(StrEnum):
    """One respect in which the texts of two sides may differ."""

    LENGTH = "length"
    VOCABULARY = "vocabulary"
    SCRIPT = "script"
    DATES = "dates"
    CLASSIFIER = "classifier"


@dataclass(frozen=True)
class Profile:
    """Rows of shares of all users, both sides together.

    rows: (users, columns). labels: of the columns, as a reader may see them; () for words of
    private text.
    """

    check: Check
    rows: Table
    norm: Norm
    labels: Sequence[str] = ()

    @property
    def varies(self) -> bool:
        """Return whether any two users differ."""
        return bool(self.rows.size and np.ptp(self.rows, axis=0).max() > 0)


def cumulative(values: Sequence[Sequence[float]]) -> tuple[list[float], Table]:
    """Compute the share of each user's values up to thresholds: the thresholds, (users, them).

    values: of each user; a user without any has a row of 0. The thresholds are values that occur,
    at most 256, whoever has them.
    """
    known = np.unique(np.concatenate([np.asarray(own, dtype=float) for own in values]))
    if len(known) > _EDGES:
        known = known[np.linspace(0, len(known) - 1, _EDGES).round().astype(int)]
    rows = np.zeros((len(values), len(known)))
    for row, own in zip(rows, values, strict=True):
        row += np.searchsorted(np.sort(own), known, "right") / max(1, len(own))
    return known.tolist(), rows
