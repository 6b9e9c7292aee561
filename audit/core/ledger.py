"""A privacy ledger: one budget in nats per part of the private data; charges before it answers."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from audit.core.release import Journal

LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_DIGITS = 6  # significant digits to which charges are rounded up
_ASIDE = ("local",)  # keys of a row that say nothing of what was answered
_SILENT = "silent"  # the parts, from 0, whose accounts did not hold the cost of a query
_OF_PLACE = ("query", "stopped")  # keys of a row that follow from its place


class Ledger:
    """The accounts of one session; threads may share it.

    Two uses, never in one session: a query is admitted only if every account stays above 0
    (`admit`), or a part whose account does not hold a query is excluded from it (`hear`).

    epsilon: budget of each part, in nats.
    budget: most queries that the session answers; public, unlike the ε left to a part.
    """

    def __init__(self, epsilon: float, parts: int, budget: int, journal: Journal) -> None:
        self.spent = [0.0] * parts
        self.queries = 0
        self.stopped = False
        self._epsilon = epsilon
        self._budget = budget
        self._lost = 0  # queries of a killed process that this one does not repeat
        self._journal = journal
        self._previous = list(journal.previous())
        self._new: list[dict[str, Any]] = []
        self._turn = threading.RLock()

    def mark(self, query: Sequence[int | float]) -> str:
        """Compute the fingerprint of a query: its context and scored token, or a sign of sampling.

        It has this session's key, so a reader of the ledger cannot guess queries and check them;
        and it is written in letters, so it never contains digits of a secret.
        """
        text = json.dumps([*query]).encode()
        digest = hashlib.blake2b(text, digest_size=8, key=self._journal.key[:64]).hexdigest()
        return digest.translate(LETTERS)

    @property
    def asked(self) -> int:
        """Queries so far, with those of a killed process that this one does not repeat."""
        return self._lost + self.queries

    @property
    def remaining(self) -> int:
        """Queries left in the public budget."""
        return max(0, self._budget - self.asked)

    def places(self, marks: Sequence[str]) -> list[int]:
        """Assign numbers to the next queries, by their fingerprints, as `asked` will count them."""
        own = range(self.queries, self.queries + len(marks))
        pairs = zip(self._previous, own, marks, strict=False)
        repeated = sum(1 for _ in takewhile(lambda one: _is_of(*one), pairs))
        lost = sum(not row["stopped"] for row in self._previous[repeated:])
        return [n + self._lost + lost * (i >= repeated) for i, n in enumerate(own)]

    def admit(
        self,
        charges: np.ndarray,
        lambdas: np.ndarray,
        marks: Sequence[str],
        local: np.ndarray | None = None,
    ) -> int:
        """Charge queries in order; return the number admitted: all, or those before STOP.

        charges: shape (queries, parts), nats.
        marks: fingerprints of the queries, to distinguish a replay from a new query (see `mark`).
        lambdas, local: shape (queries, parts), for the journal only: λ, and the data-dependent cost
            in nats if the charge is a worst case. `local` decides nothing; another λ is another
            law, so a query with it is not a replay.
        """
        entries = []
        for i, fingerprint in enumerate(marks):
            entry: dict[str, Any] = {
                "asked": fingerprint,
                "lambda": [float(f"{w:.6g}") for w in lambdas[i]],
                "charge": [round_up(float(c)) for c in charges[i]],
            }
            if local is not None:
                entry["local"] = [round_up(float(c)) for c in local[i]]
            entries.append(entry)
        with self._turn:
            admitted = sum(1 for _ in takewhile(self._admit_one, entries))
            self.skip(len(charges) - admitted - (admitted < len(charges)))
        return admitted

    def hear(self, costs: np.ndarray, marks: Sequence[str]) -> tuple[np.ndarray, int]:
        """Charge queries in order, and each part only where its account holds the cost.

        costs: shape (queries, parts), nats: what a query costs a part that is included in it.
        marks: as in `admit`; here they alone mark a replay, which includes the same parts at
            the same charges as before, whatever the costs are now.

        Returns which parts are included, (queries, parts), none from STOP on, and the number
        admitted before STOP. No account stops the session: only the public budget does.
        """
        heard, admitted = np.zeros(costs.shape, dtype=bool), 0
        with self._turn:
            for own, fingerprint in zip(costs, marks, strict=True):
                entry = self._recalled(fingerprint) or self._payable(own, fingerprint)
                if not self._admit_one(entry):
                    break
                heard[admitted] = True
                heard[admitted, entry[_SILENT]] = False
                admitted += 1
            self.skip(len(costs) - admitted - (admitted < len(costs)))
        return heard, admitted

    def skip(self, queries: int) -> None:
        """Count queries that are answered without private data."""
        with self._turn:
            self.queries += queries

    def flush(self) -> None:
        """Write every charge to disk; answers may be released only after this."""
        with self._turn:
            self._journal.append(self._new)
            self._new = []

    def _recalled(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the entry of this very query by a killed process; else charges what that process
        was asked instead, before anybody's account is looked at."""
        if not self._previous:
            return None
        row = self._previous[0]
        if _is_of(row, self.queries, fingerprint):
            return {key: value for key, value in row.items() if key not in _OF_PLACE}
        self._absorb()
        return None

    def _payable(self, costs: np.ndarray, fingerprint: str) -> dict[str, Any]:
        """Charge each part what the query costs it, or nothing where that does not fit."""
        charges = [round_up(float(c)) for c in costs]
        silent = [i for i, total in enumerate(self._with(charges)) if not total < self._epsilon]
        for i in silent:
            charges[i] = 0.0
        return {"asked": fingerprint, "lambda": [], "charge": charges, _SILENT: silent}

    def _admit_one(self, entry: dict[str, Any]) -> bool:
        number, self.queries = self.queries, self.queries + 1
        if self.stopped:
            return False
        row = self._row(number, entry)
        if self._previous and _answer(self._previous[0]) != _answer(row):
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
        """Charge the answers of a killed process that this session does not repeat; if that
        process had stopped, this session stops, too."""
        for row in self._previous:
            self.stopped = self.stopped or row["stopped"]
            if not row["stopped"]:
                self.spent = self._with(row["charge"])
                self._lost += 1
        self._previous = []


def _is_of(row: dict[str, Any], number: int, fingerprint: str) -> bool:
    """Recognise the row of this query at this place."""
    return (row["query"], row["asked"]) == (number, fingerprint)


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a row what does not belong to the answer.

    These figures depend on the data and may move in the last digit when a session is replayed. A
    replay that was recognised by them would answer a number of queries that depends on the data.
    """
    return {key: value for key, value in row.items() if key not in _ASIDE}


def round_up(charge: float) -> float:
    """Round a charge up to six significant digits."""
    if charge < 0:
        raise ValueError(f"a charge is {charge}; it cannot be negative")
    if math.isnan(charge):
        return math.inf  # an unknown cost cannot be paid
    if charge == 0 or math.isinf(charge):
        return charge
    shown = float(f"{charge:.{_DIGITS - 1}e}")
    if shown < charge:
        step = 10.0 ** (math.floor(math.log10(charge)) - _DIGITS + 1)
        shown = float(f"{charge + step:.{_DIGITS - 1}e}")
    return shown
