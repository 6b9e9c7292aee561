"""Makes every token equally likely, independently of all data: 0-DP. For tests of attacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.language_model import Cursor, LanguageModel
from audit.core.model import ModelFolder
from audit.core.predictor import Tokenizer, Tokens
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from defenses.training.public_text import NEVER_READ

CONSTANT = replace(NEVER_READ, theorem="the answer does not depend on any data", conditions=())


@dataclass(frozen=True)
class UniformModel:
    """Assigns every token probability 1/V after every text."""

    tokenizer: Tokenizer
    vocabulary: int
    max_length: int

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        return _UniformCursor(len(prompts), self.vocabulary)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return _UniformCursor(sum(map(len, texts)) - sum(starts), self.vocabulary).log_pmf()


@dataclass(frozen=True)
class _UniformCursor:
    texts: int
    vocabulary: int

    def log_pmf(self) -> torch.Tensor:
        shape = (self.texts, self.vocabulary)
        return torch.full(shape, -math.log(self.vocabulary), dtype=torch.float64)

    def append(self, tokens: torch.Tensor) -> None:
        return None


@dataclass(frozen=True)
class Uniform(Defense):
    """Answers every query uniformly at random: ε = 0 and no utility."""

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return ()

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        model = UniformModel(public.tokenizer, public.vocabulary, public.max_length)
        return ModelRelease(model, CONSTANT)
