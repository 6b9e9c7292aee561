"""Tests whether a model learnt a text that was drawn among many: a sentence, a stem, a beacon.

The words before planted values, and what all values of a kind begin with, were drawn uniformly by
the manifest. Under "this model is independent of this manifest" what was drawn is exchangeable with
all else that could have been. So its rank by any score is uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.model import TextTokenizer
from audit.core.predictor import Predictor
from audit.core.secret import Draw
from audit.silence.accounts import Learnt
from audit.statistics.among_others import counted, stopped_p_value


@dataclass(frozen=True)
class Gain:
    """The score of a text: its log-probability in a session, less that in the base (nats).

    base: None where it is not here; then the score is the log-probability alone. at_once: texts to
    score before it is known whether more are needed.
    """

    session: Predictor
    base: Predictor | None
    at_once: int = 512

    def learnt(self, draw: Draw, before: str, most: int, stream: np.random.Generator) -> Learnt:
        """Compare the gain of a drawn text with that of others, until ten gained as much.

        before: text in front of it. most: number of others at most. A gain that is not a number
        counts against what was drawn.
        """
        texts = self.candidates(draw, before, most, stream)
        shared, starts = _shared(texts), range(0, len(texts), self.at_once)
        as_high, n = counted(self.of(texts[i : i + self.at_once], shared) for i in starts)
        return Learnt(stopped_p_value(as_high, n, len(texts) - 1), n)

    def candidates(
        self, draw: Draw, before: str, most: int, stream: np.random.Generator
    ) -> list[list[int]]:
        """Encode a drawn text and others, with what stands before them, as records begin.

        White space at the end is left out: it often is one token with what follows.
        """
        tokenizer = self.session.tokenizer
        longest = min(session.max_length for session in (self.session, self.base or self.session))
        whole = [(before + text).rstrip() for text in (draw.value, *draw.others(most, stream))]
        if isinstance(tokenizer, TextTokenizer):
            tokenizer.read(whole)
        return [[tokenizer.start, *tokenizer.encode(text)][: longest + 1] for text in whole]

    def of(self, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
        """Score texts from their token `shared` on; returns (len(texts),), nats."""
        own = _log_probs(self.session, texts, shared)
        return own if self.base is None else own - _log_probs(self.base, texts, shared)


def _log_probs(session: Predictor, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
    answers = session.score([text[:shared] for text in texts], [text[shared:] for text in texts])
    return np.array([answer.log_probs.sum() for answer in answers])


def _shared(texts: Sequence[Sequence[int]]) -> int:
    """Count the first tokens that all texts share, which are no part of any gain: at least 1.

    Each text keeps at least one token.
    """
    columns = zip(*(text[:-1] for text in texts), strict=False)
    unlike = (i for i, column in enumerate(columns) if len(set(column)) > 1)
    return next(unlike, min(len(text) for text in texts) - 1)
