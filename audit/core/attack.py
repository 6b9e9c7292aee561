"""An attack scores candidate secrets. It never sees a coin, a guarantee or a defense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.evidence import Evidence
from audit.core.predictor import Access, Predictor, Tokenizer
from audit.core.secret import Secret
from audit.core.terms import Relation


@dataclass(frozen=True)
class Shadow:
    """A shadow model: the same defense, trained by the attacker on new tosses of the coins.

    present: shape (s,), bool: whether it was trained on each secret.
    """

    predictor: Predictor
    present: np.ndarray


@dataclass(frozen=True)
class Neighbour:
    """The same service on data that differ in one unit, which only its auditor can open.

    predictor: a session with a full budget. unit: number of the unit in the service's ledger.
    relation: how the data differ: the unit is removed, emptied or replaced.
    """

    predictor: Predictor
    unit: int
    relation: Relation | str


@dataclass(frozen=True)
class Knowledge:
    """What the attacker knows besides the release.

    public: unlimited session with the public model; None if that model is unknown.
    texts: held-out texts of the same kind as the training text, never trained on.
    names: names of held-out people, never trained on.
    shadows: as many shadow models as the attack declares in `Attack.shadows`.
    stream: random generator of the attack, its only source of randomness.
    opened: whether the training opened every text with the tokenizer's start token; None: unknown,
        as for a model that was trained elsewhere.
    neighbours: neighbours of the release, for an attack that declares `Attack.neighbours`.
    order: Rényi order α in which the release's ledger counts, for the same; None: not known.
    """

    public: Predictor | None
    texts: tuple[str, ...]
    names: tuple[str, ...]
    shadows: tuple[Shadow, ...]
    stream: np.random.Generator
    opened: bool | None = True
    neighbours: tuple[Neighbour, ...] = ()
    order: float | None = None


class Attack(ABC):
    """A frozen dataclass whose fields are the attack's parameters.

    kinds: kinds of secrets that it attacks, of `audit.core.secret.KINDS`.
    access: least access to a release with which it gives evidence.
    shadows: number of shadow models it needs, which the run trains.
    neighbours: whether it compares the release with its neighbours; statistics then join what the
        session's ledger charged.
    on_texts: whether texts of the release are all that it reads; `--attack all` leaves it out where
        more than texts are released.
    """

    kinds: tuple[str, ...]
    access: Access
    shadows: int = 0
    neighbours: bool = False
    on_texts: bool = False

    @abstractmethod
    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """Bounds the queries of a full run, for the dry run and the cost estimate."""

    @abstractmethod
    def trials(self) -> int:
        """Gives the trials of its main rate when all queries are answered, for the power."""

    @abstractmethod
    def tests(self, secrets: Sequence[Secret]) -> int:
        """Bounds the statistical tests of its findings, for which leaks are adjusted."""

    def claim_tests(self, secrets: Sequence[Secret]) -> int:
        """Bounds those of its tests that can carry a bound on ε, and so can refute a claim."""
        return self.tests(secrets)

    def public_tests(self, secrets: Sequence[Secret]) -> int:
        """Counts those of both that need `Knowledge.public`; none are made where it is unknown."""
        return 0

    @abstractmethod
    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Attacks one session with at most `predictor.remaining` queries."""
