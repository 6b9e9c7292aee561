"""Tests whether a model learnt a text that was drawn among many: a sentence, a stem, a beacon.

The words before planted values, and what all values of a kind begin with, were drawn uniformly by
the manifest. Under "this model is independent of this manifest" what was drawn is exchangeable with
all else that could have been. So its rank by any score is uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from audit.core.language_model import LanguageModel, read_in_parts, runs_of, scored_at_once
from audit.core.model import TextTokenizer
from audit.core.secret import Draw
from audit.statistics.among_others import counted, stopped_p_value

_AT_ONCE = 512  # texts to score before it is known whether more are needed


@dataclass(frozen=True)
class Learnt:
    """Test of one drawn text. as_high: others that gained at least as much, of `draws`.

    limit: number of others at most.
    """

    as_high: int
    draws: int
    limit: int

    @property
    def p_value(self) -> float:
        """Probability of a rank like this if the model is independent of what was drawn."""
        return stopped_p_value(self.as_high, self.draws, self.limit)


@dataclass(frozen=True)
class Gain:
    """The score of a text: its log-probability under a model, less that under its base (nats).

    base: None where it is not here; then the score is the log-probability alone.
    """

    audited: LanguageModel
    base: LanguageModel | None

    def tokens(self, before: str, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts with what stands before them, as records begin.

        White space at the end is left out: it often is one token with what follows.
        """
        tokenizer = self.audited.tokenizer
        longest = min(model.max_length for model in (self.audited, self.base or self.audited))
        whole = [(before + text).rstrip() for text in texts]
        if isinstance(tokenizer, TextTokenizer):
            tokenizer.read(whole)
        return [[tokenizer.start, *tokenizer.encode(text)][: longest + 1] for text in whole]

    def of(self, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
        """Score texts from their token `shared` on; returns (len(texts),), nats."""
        own = _log_probs(self.audited, texts, shared)
        return own if self.base is None else own - _log_probs(self.base, texts, shared)


def _log_probs(model: LanguageModel, texts: Sequence[Sequence[int]], shared: int) -> np.ndarray:
    """Sum the log-probabilities of the tokens of each text from `shared` on: (len(texts),)."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # little padding
    sums = np.empty(len(texts))
    for some in runs_of([len(texts[i]) for i in order], scored_at_once(model)):
        run = order[some]
        tails = [texts[i][shared:] for i in run]
        tokens = torch.tensor([t for tail in tails for t in tail])

        def chosen(log_pmfs: torch.Tensor, at: slice, tokens: torch.Tensor = tokens) -> np.ndarray:
            read = log_pmfs.gather(1, tokens[at, None].to(log_pmfs.device))[:, 0]
            return np.asarray(read.cpu())

        parts = read_in_parts(model, [texts[i] for i in run], [shared] * len(run), chosen)
        ends = np.cumsum([len(tail) for tail in tails])
        sums[run] = np.add.reduceat(np.concatenate(parts), [0, *ends[:-1]])
    return sums


def learnt(
    draw: Draw, before: str, gain: Gain, most: int, generator: np.random.Generator
) -> Learnt:
    """Compare the gain of a drawn text with that of others, until ten gained as much.

    before: text in front of it. most: number of others at most. A gain that is not a number counts
    against what was drawn.
    """
    others = draw.others(most, generator)
    texts = gain.tokens(before, [draw.value, *others])
    shared, starts = _shared(texts), range(0, len(texts), _AT_ONCE)
    parts = (gain.of(texts[start : start + _AT_ONCE], shared) for start in starts)
    return Learnt(*counted(parts), len(others))


def _shared(texts: Sequence[Sequence[int]]) -> int:
    """Count the first tokens that all texts share, which are no part of any gain: at least 1.

    Each text keeps at least one token.
    """
    columns = zip(*(text[:-1] for text in texts), strict=False)
    unlike = (i for i, column in enumerate(columns) if len(set(column)) > 1)
    return next(unlike, min(len(text) for text in texts) - 1)
