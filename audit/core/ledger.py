"""A privacy ledger: charge first, answer after, STOP for good (nats, one account a part)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from audit.core.release import Journal

LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_DIGITS = 6  # a charge is rounded up to this many significant digits


class Ledger:
    """The accounts of one session. A query is admitted only if every account stays above 0.

    epsilon: what each part may spend, in nats.
    budget: queries the session answers at most; public, unlike what is left of ε.
    """

    def __init__(self, epsilon: float, parts: int, budget: int, journal: Journal) -> None:
        self.spent = [0.0] * parts
        self.queries = 0
        self.stopped = False
        self._epsilon = epsilon
        self._budget = budget
        self._lost = 0  # queries that a killed process answered and this one does not repeat
        self._journal = journal
        self._previous = list(journal.previous())
        self._new: list[dict[str, Any]] = []

    def mark(self, asked: Sequence[int | float]) -> str:
        """The fingerprint of a query under this session's key."""
        return mark(asked, self._journal.key)

    @property
    def remaining(self) -> int:
        """Queries left in the public budget."""
        return max(0, self._budget - self._lost - self.queries)

    def admit(
        self,
        charges: np.ndarray,
        lambdas: np.ndarray,
        marks: Sequence[str],
        local: np.ndarray | None = None,
    ) -> int:
        """Charges queries in order and returns how many are admitted: all, or those before STOP.

        charges, lambdas, local: shape (queries, parts); charges in nats, the others only for the
            journal: λ, and the data-dependent cost in nats where the charge is a worst case.
        marks: what was asked, for telling a replay from another query (see `mark`).
        """
        admitted = 0
        for i, asked in enumerate(marks):
            entry: dict[str, Any] = {
                "asked": asked,
                "lambda": [float(f"{w:.6g}") for w in lambdas[i]],
                "charge": [round_up(float(c)) for c in charges[i]],
            }
            if local is not None:
                entry["local"] = [round_up(float(c)) for c in local[i]]
            if not self._admit_one(entry):
                break
            admitted += 1
        self.skip(len(charges) - admitted - (admitted < len(charges)))
        return admitted

    def skip(self, queries: int) -> None:
        """Counts queries that are answered without the private data."""
        self.queries += queries

    def flush(self) -> None:
        """Puts every charge on disk; answers are handed out only after this."""
        self._journal.append(self._new)
        self._new = []

    def _admit_one(self, entry: dict[str, Any]) -> bool:
        number, self.queries = self.queries, self.queries + 1
        if self.stopped:
            return False
        row = self._row(number, entry)
        if self._previous and self._previous[0] != row:
            self._absorb()
            if self.stopped:
                return False
            row = self._row(number, entry)
        if self._previous:
            self._previous.pop(0)
        else:
            self._new.append(row)
        self.stopped = row["stopped"]
        if not self.stopped:
            self.spent = self._with(entry["charge"])
        return not self.stopped

    def _row(self, number: int, entry: dict[str, Any]) -> dict[str, Any]:
        fits = number + self._lost < self._budget
        fits = fits and all(total < self._epsilon for total in self._with(entry["charge"]))
        return {"query": number, **entry, "stopped": not fits}

    def _with(self, charges: Sequence[float]) -> list[float]:
        return [s + c for s, c in zip(self.spent, charges, strict=True)]

    def _absorb(self) -> None:
        """A killed process was asked something else: what it answered stays charged and counted,
        and if it had stopped, this session has stopped too."""
        for lost in self._previous:
            self.stopped = self.stopped or lost["stopped"]
            if not lost["stopped"]:
                self.spent = self._with(lost["charge"])
                self._lost += 1
        self._previous = []


def mark(asked: Sequence[int | float], key: bytes) -> str:
    """A fingerprint of a query: its context, and the token that is scored, or a sign of sampling.

    Keyed, so that nobody who reads a ledger can try out what was asked; in letters, so that it
    holds no digits of anybody's code.
    """
    text = json.dumps([*asked]).encode()
    digest = hashlib.blake2b(text, digest_size=8, key=key[:64]).hexdigest()
    return digest.translate(LETTERS)


def round_up(charge: float) -> float:
    """The charge with six significant digits, never less than it was."""
    if charge < 0:
        raise ValueError(f"a charge is {charge}; it cannot be negative")
    if math.isnan(charge):
        return math.inf  # what cannot be computed cannot be paid
    if charge == 0 or math.isinf(charge):
        return charge
    shown = float(f"{charge:.{_DIGITS - 1}e}")
    if shown < charge:
        step = 10.0 ** (math.floor(math.log10(charge)) - _DIGITS + 1)
        shown = float(f"{charge + step:.{_DIGITS - 1}e}")
    return shown
