"""Accounts: what a query is charged, and which queries and parts the ledger admits.

An account is a setting; what a session has spent is in its ledger.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from audit.core.ensemble import Ensemble, Separate
from audit.core.language_model import LanguageModel
from audit.core.ledger import Ledger, round_up
from audit.core.release import Journal
from audit.models.ensembles.batching import batched
from defenses.ensembles.mechanism import Mixed

_SHARE = 1e-9  # of a divergence: room for floating-point error
_ROOM = 1e-11  # nats: room for rounding errors of a divergence near 0
_ROUNDING = 2e-5  # share of a charge: room for rounding it up to six digits


def even_share(epsilon: float, budget: int) -> float:
    """Compute the share of ε for one of B queries, in nats, so that B rounded charges fit in ε."""
    return epsilon / budget * (1 - _ROUNDING)


@dataclass(frozen=True)
class Admitted:
    """The queries that are answered: the first `count`, before STOP.

    heard: shape (n, k), bool: the parts whose accounts held the cost of a query; None for all.
    """

    count: int
    heard: np.ndarray | None = None


class Account(ABC):
    """Charges the queries of one session in their order, before they are answered.

    ahead: most prompts whose tokens may be drawn before the first of them is charged.
    """

    ahead = sys.maxsize

    @abstractmethod
    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        """Charge n queries; their fingerprints distinguish a replay from a new query."""

    def places(self, ledger: Ledger, marks: Sequence[str]) -> Sequence[int]:
        """Assign numbers to queries. Randomness follows from a query's number and its context."""
        return range(ledger.queries, ledger.queries + len(marks))

    def stopped(self, ledger: Ledger) -> bool:
        """Decide whether the public model answers from here on."""
        return ledger.stopped

    def remaining(self, ledger: Ledger) -> int | None:
        """Count the queries left of the public budget; None for no limit."""
        return ledger.remaining


class PartsAccount(Account):
    """An account of an ensemble whose k parts all have a budget of their own.

    basis: of the guarantee. budget: most queries B of a session, a public number.
    """

    basis: str
    budget: int

    @property
    @abstractmethod
    def spends(self) -> float:
        """The most that a session can charge a part, nats of D_α."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the guarantee: what a query costs and when the service stops."""

    def open(self, parts: int, journal: Journal) -> Ledger:
        """Open the ledger of a session with k parts."""
        return Ledger(self.spends, parts, self.budget, journal)

    def together(self, models: Sequence[LanguageModel]) -> Ensemble:
        """Combine the models that a session reads."""
        return batched(models)


@dataclass(frozen=True)
class Constant(PartsAccount):
    """Charges every query to every part the same. All B queries are answered, so STOP is public.

    divergence: bound on D_α of one query on any data, nats, for the unit and relation of the
        guarantee.
    """

    divergence: float
    budget: int
    basis = "worst case"

    @property
    def charge(self) -> float:
        """D_α of one query, nats, rounded up with a margin for floating-point error."""
        return round_up(self.divergence * (1 + _SHARE))

    @property
    def spends(self) -> float:
        return self.budget * self.charge

    @property
    def conditions(self) -> tuple[str, ...]:
        return (
            f"every query costs every part the same {self.charge:.6g} nats of D_α; the service "
            f"stops after {self.budget} queries, a public number",
        )

    def open(self, parts: int, journal: Journal) -> Ledger:
        # half a charge above: B charges fit strictly, B + 1 do not
        return Ledger((self.budget + 0.5) * self.charge, parts, self.budget, journal)

    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        n = len(marks)
        charges = np.full((n, len(ledger.spent)), self.charge)
        local = None if mixed.costs is None else _figures(mixed.costs)
        return Admitted(ledger.admit(charges, np.empty((n, 0)), marks, local))


@dataclass(frozen=True)
class ByData(PartsAccount):
    """Charges each part what a query costs it on this data set, until one cannot pay.

    So charges and STOP are themselves private. Needs a mechanism that computes `Mixed.costs`.

    epsilon: ε of each part, nats. worst: bound on D_α of one query on any data, nats, for
        information; None for none. share, room: added to each cost for floating-point error, as a
        share of it, and in nats.
    """

    epsilon: float
    budget: int
    worst: float | None = None
    share: float = _SHARE
    room: float = _ROOM
    basis = "data-dependent"

    @property
    def spends(self) -> float:
        return self.epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        by_data = (
            "holds for this data set, this partition of the users and the STOP of this run: a "
            "query costs a part what it could change at most with the other parts as they are, "
            "so costs and STOP are themselves private; when the run with another part would "
            "have stopped is not charged"
        )
        if self.worst is None:
            return (by_data,)
        worst = Constant(self.worst, self.budget).spends
        return (by_data, f"as a worst case {self.budget} such queries cost {worst:.6g} nats")

    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        assert mixed.costs is not None
        charges = _figures(mixed.costs) * (1 + self.share) + self.room
        weights = np.empty((len(marks), 0)) if mixed.weights is None else _figures(mixed.weights)
        return Admitted(ledger.admit(charges, weights, marks))


@dataclass(frozen=True)
class Filter(PartsAccount):
    """Charges each part what a query costs it, and excludes parts that cannot pay.

    After individual Rényi filters (Feldman and Zrnic, arXiv 2008.11193). A query may cost a part
    more than an even share of ε. Queries are answered one after the other, in their order:
    1. all members are read, and the cost c_i is computed for every part;
    2. a part whose charges so far and c_i together are below ε is charged c_i; any other part is
       emptied for this query: the public model takes its place, and it is charged nothing;
    3. the answer is computed and, in a generation, drawn.
    Needs a mechanism whose cost of a part depends on that part's member and the public model alone,
    for a claim on emptied parts. Then whether a part is excluded depends on that part, the public
    model and the transcript, and for every transcript its charges sum to at most ε. Who is
    excluded is not published; the next query asks all again. STOP depends on no account.

    epsilon: ε of each part, nats. divergence: bound on D_α of one query on any data, nats.
    """

    epsilon: float
    budget: int
    divergence: float
    basis = "worst case"
    ahead = 1

    @property
    def spends(self) -> float:
        return self.epsilon

    @property
    def conditions(self) -> tuple[str, ...]:
        most = round_up(self.divergence * (1 + _SHARE))
        return (
            f"a query costs a part by its own model, at most {most:.6g} nats of D_α; a part "
            "whose account does not hold that is silent in the query, and nobody is told; the "
            f"service stops after {self.budget} queries, a public number",
        )

    def admit(self, ledger: Ledger, mixed: Mixed, marks: Sequence[str]) -> Admitted:
        assert mixed.costs is not None
        heard, count = ledger.hear(_figures(mixed.costs.clamp(min=0)) * (1 + _SHARE), marks)
        return Admitted(count, heard)

    def places(self, ledger: Ledger, marks: Sequence[str]) -> Sequence[int]:
        """Assign numbers over all processes: asked again after a kill, a query may meet other
        accounts, and so another distribution."""
        return ledger.places(marks)

    def together(self, models: Sequence[LanguageModel]) -> Ensemble:
        """Read models one by one: whether a cost fits is a jump, which the last digit of a number
        can decide, and models that are read together move each other's last digits."""
        return Separate(models)


def _figures(values: torch.Tensor) -> np.ndarray:
    figures: np.ndarray = values.cpu().numpy()
    return figures
