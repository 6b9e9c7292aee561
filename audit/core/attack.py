"""An attack scores candidate secrets. It never sees a coin, a guarantee or a defense."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.evidence import Evidence
from audit.core.predictor import Access, Predictor, Tokenizer
from audit.core.secret import Secret


@dataclass(frozen=True)
class Shadow:
    """A shadow model: the same defense, trained by the attacker on new tosses of the coins.

    present: shape (s,), bool: whether it was trained on each secret.
    """

    predictor: Predictor
    present: np.ndarray


@dataclass(frozen=True)
class Knowledge:
    """What the attacker knows besides the release.

    public: unlimited session with the public model; None if that model is unknown.
    texts: held-out texts of the same kind as the training text, never trained on.
    names: names of held-out people, never trained on.
    shadows: as many shadow models as the attack declares in `Attack.shadows`.
    stream: random generator of the attack, its only source of randomness.
    """

    public: Predictor | None
    texts: tuple[str, ...]
    names: tuple[str, ...]
    shadows: tuple[Shadow, ...]
    stream: np.random.Generator


class Attack(ABC):
    """A frozen dataclass whose fields are the attack's parameters.

    kinds: kinds of secrets that it attacks: "code", "id", "name", "record".
    access: least access to a release with which it gives evidence.
    shadows: number of shadow models it needs, which the run trains.
    """

    kinds: tuple[str, ...]
    access: Access
    shadows: int = 0

    @abstractmethod
    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """Bounds the queries of a full run, for the dry run and the cost estimate."""

    @abstractmethod
    def trials(self) -> int:
        """Gives the trials of its main rate when all queries are answered, for the power."""

    @abstractmethod
    def tests(self, secrets: Sequence[Secret]) -> int:
        """Bounds the statistical tests of its findings, for which verdicts are adjusted."""

    @abstractmethod
    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Attacks one session with at most `predictor.remaining` queries."""
