"""Test by scores of a session whether a model learnt the words that a manifest drew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from audit.core.predictor import Predictor, Tokenizer
from audit.silence.drawn_words import Sentence
from audit.statistics.among_others import counted, stopped_p_value

# others to compare with, for each way that is tried: the best of all then has p = 0.001 / ways
OTHERS = 999
_AT_ONCE = 50  # of them, until it is known whether more are needed


class Scored(NamedTuple):
    """Test of a drawn text. n: others that were scored, or answers."""

    p_value: float
    n: int


def look(
    session: Predictor,
    base: Predictor | None,
    sentence: Sentence,
    most: int,
    draws: np.random.Generator,
) -> Scored:
    """Compare the gain of the drawn words with that of at most so many others, until ten gained as
    much.

    The gain is the log-probability (nats) less that of the base, where it is here. A gain that is
    not a number counts against the drawn words.
    """
    texts = candidates(session.tokenizer, sentence, most, draws)
    shared = next(i for i, column in enumerate(zip(*texts, strict=False)) if len({*column}) > 1)
    starts = range(0, len(texts), _AT_ONCE)
    parts = (_gains(session, base, texts[i : i + _AT_ONCE], shared) for i in starts)
    as_high, n = counted(parts)
    return Scored(stopped_p_value(as_high, n, len(texts) - 1), n)


def candidates(
    tokenizer: Tokenizer, sentence: Sentence, most: int, draws: np.random.Generator
) -> list[list[int]]:
    """Encode the drawn words and the others. They differ, and not in what comes before them.

    White space at the end is left out: it often is one token with what follows.
    """
    words = (sentence.draw.value, *sentence.draw.others(most, draws))
    return [sentence.prompt(tokenizer, one.rstrip()) for one in words]


def _gains(
    session: Predictor, base: Predictor | None, texts: Sequence[Sequence[int]], shared: int
) -> np.ndarray:
    heads, tails = [text[:shared] for text in texts], [text[shared:] for text in texts]
    gains = np.array([answer.log_probs.sum() for answer in session.score(heads, tails)])
    if base is not None:
        gains -= np.array([answer.log_probs.sum() for answer in base.score(heads, tails)])
    return gains
