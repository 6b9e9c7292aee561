"""Compares an audited model with its base on planted texts.

A checkpoint of step 0, an average that never moved or an adapter without effect answers exactly as
the base does. Nothing that was planted can have reached such weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.language_model import LanguageModel, OpenSession
from audit.core.predictor import Tokens

_FLOORS = 4  # differences of the base from itself that two models need to be told apart
_LEAST = 1e-6  # nats a token, where the base answers alike in any batch


@dataclass(frozen=True)
class Difference:
    """The largest difference of the log-probability of a token, in nats.

    floor: of the base alone and the base in a padded batch. largest: of the audited model and the
    base. texts: number of texts that were read.
    """

    floor: float
    largest: float
    texts: int

    @property
    def is_none(self) -> bool:
        """Return whether the two models answer alike, or not comparably (NaN)."""
        return not self.largest > max(_LEAST, _FLOORS * self.floor)


def difference(audited: LanguageModel, base: LanguageModel, texts: Sequence[Tokens]) -> Difference:
    """Measure how much an audited model differs from its base. texts: at least two tokens each."""
    longest = min(audited.max_length, base.max_length) + 1
    whole = [text[:longest] for text in texts]
    together = _read(base, whole)
    alone = np.concatenate([_read(base, [text]) for text in whole])
    return Difference(
        floor=_largest(alone, together),
        largest=_largest(_read(audited, whole), together),
        texts=len(whole),
    )


def _read(model: LanguageModel, texts: Sequence[Tokens]) -> np.ndarray:
    session = OpenSession(model, np.random.default_rng(0))  # scoring draws nothing
    answers = session.score([text[:1] for text in texts], [text[1:] for text in texts])
    return np.concatenate([answer.log_probs for answer in answers])


def _largest(one: np.ndarray, other: np.ndarray) -> float:
    """Find the largest difference; a token that both hold impossible makes none."""
    unlike = one != other
    return float(np.abs(one[unlike] - other[unlike]).max(initial=0.0))
