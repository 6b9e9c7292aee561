"""A toy that copies from its prompt, and one of which everything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch

from audit.contract.toys import CharacterTokenizer
from audit.core.predictor import Tokens


@dataclass(frozen=True)
class Copier:
    """Predicts what followed the last token earlier in its context; else every token alike.

    sure: mass of the copy. reads: every context that was read, in order.
    """

    tokenizer: CharacterTokenizer
    max_length: int = 64
    sure: float = 0.9
    reads: list[tuple[int, ...]] = field(default_factory=list, compare=False)

    @property
    def vocabulary(self) -> int:
        return len(self.tokenizer.alphabet)

    def cursor(self, prompts: Sequence[Tokens]) -> CopierCursor:
        assert len({len(prompt) for prompt in prompts}) == 1
        return CopierCursor(self, [list(prompt) for prompt in prompts])

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        pairs = zip(texts, starts, strict=True)
        return torch.stack([self.after(t[:i]) for t, s in pairs for i in range(s, len(t))])

    def after(self, context: Tokens) -> torch.Tensor:
        assert len(context) <= self.max_length
        self.reads.append(tuple(context))
        pmf = np.full(self.vocabulary, 1.0)
        earlier = [b for a, b in pairwise(context) if a == context[-1]]
        if earlier:
            pmf *= (1 - self.sure) / (self.vocabulary - 1)
            pmf[earlier[0]] = self.sure
        return torch.tensor(np.log(pmf / pmf.sum()))


@dataclass
class CopierCursor:
    model: Copier
    texts: list[list[int]]

    def log_pmf(self) -> torch.Tensor:
        return torch.stack([self.model.after(text) for text in self.texts])

    def append(self, tokens: torch.Tensor) -> None:
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)
