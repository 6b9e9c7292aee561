"""An attack scores candidate secrets. It never sees a coin, a guarantee or a defense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.corpus import Record
from audit.core.evidence import Evidence
from audit.core.predictor import Access, Predictor
from audit.core.rules import check_fields
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
    """Knowledge of the attacker besides the release.

    public: unlimited session with the public model; None if that model is unknown.
    texts: held-out texts of the same kind as the training text, never trained on.
    names: names of held-out people, never trained on.
    shadows: as many shadow models as the attack declares in `Attack.shadows`.
    stream: random generator of the attack, its only source of randomness.
    opened: whether the training opened every text with the tokenizer's start token; None: unknown,
        as for a model that was trained elsewhere.
    neighbours: neighbours of the release, for an attack that declares `Attack.neighbours`.
    order: Rényi order α in which the release's ledger counts, for the same; None: not known.
    corpus: every record of the corpus as it was before the coins, of all splits, in an order that
        knows no coin; where the corpus is not here, those of users with coins.
    """

    public: Predictor | None
    texts: tuple[str, ...]
    names: tuple[str, ...]
    shadows: tuple[Shadow, ...]
    stream: np.random.Generator
    opened: bool | None = True
    neighbours: tuple[Neighbour, ...] = ()
    order: float | None = None
    corpus: tuple[Record, ...] = ()


class Attack(ABC):
    """A frozen dataclass whose fields are the attack's parameters.

    A field's rule, `k: Annotated[int, at_least(2)]`, is checked when an attack is made.
    kinds: kinds of secrets that it attacks, of `audit.core.secret.ATTACKED`.
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

    def __post_init__(self) -> None:
        check_fields(type(self).__module__.rpartition(".")[2], self)

    @abstractmethod
    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        """Return what `run` returns where everything is answered, with as many tries, but empty.

        The findings count their tests from it before anything is asked: leaks are adjusted for
        them. public: whether `Knowledge.public` is known.
        """

    def asking(self, tries: int) -> Attack:
        """Return this attack with so many generations after each sentence; itself if it makes none.

        tries: at least 1, for each kind of value.
        """
        return self

    @abstractmethod
    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Attack one session with at most `predictor.remaining` queries."""
