"""An attack scores secrets. It never sees a coin, a guarantee or a defense."""

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
    """The same defense on other tosses of the same coins, made by the attacker.

    present: shape (s,), bool: the secrets it was trained on.
    """

    predictor: Predictor
    present: np.ndarray


@dataclass(frozen=True)
class Knowledge:
    """What the attacker has besides the release.

    public: the public model, open without end; None where it is not known. texts: held-out texts of
    the same kind, never trained on. names: the names of held-out people, the same. shadows: as many
    as were asked for. stream: the attack's own randomness.
    """

    public: Predictor | None
    texts: tuple[str, ...]
    names: tuple[str, ...]
    shadows: tuple[Shadow, ...]
    stream: np.random.Generator


class Attack(ABC):
    """A frozen dataclass: its fields are its parameters.

    kinds: the secrets it goes for. access: the least a release must give for it to say anything.
    shadows: how many shadow models it needs; the run trains them.
    """

    kinds: tuple[str, ...]
    access: Access
    shadows: int = 0

    @abstractmethod
    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        """How many queries a full run asks, at most; for the dry run and the cost."""

    @abstractmethod
    def trials(self) -> int:
        """How many trials its main rate has when every query is answered; for the power."""

    @abstractmethod
    def tests(self, secrets: Sequence[Secret]) -> int:
        """How many tests its findings make, at most: what verdicts are adjusted for."""

    @abstractmethod
    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Attacks one session. Asks no more than `predictor.remaining`."""
