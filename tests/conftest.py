"""Toys that several tests share: a language model small enough to work out by hand."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # toys: threads only wait for each other

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # timing never decides a test
settings.load_profile("untimed")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests that need a GPU are skipped where there is none."""
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@dataclass(frozen=True)
class ToyTokenizer:
    """One token a character of `alphabet`; token 0 opens and closes."""

    alphabet: str
    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [self.alphabet.index(character) for character in text]

    def ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.alphabet[token] for token in tokens)


@dataclass(frozen=True)
class Bigram:
    """A language model that looks at the last token only: log_table[last, next], nats."""

    log_table: np.ndarray
    tokenizer: ToyTokenizer
    max_length: int = 64

    @property
    def vocabulary(self) -> int:
        return int(self.log_table.shape[0])

    def cursor(self, prompts: Sequence[Sequence[int]]) -> BigramCursor:
        return BigramCursor(self, [list(prompt) for prompt in prompts])

    def log_pmfs(self, texts: Sequence[Sequence[int]], starts: Sequence[int]):  # type: ignore[no-untyped-def]
        import torch

        rows = [
            self.log_table[text[i - 1]]
            for text, start in zip(texts, starts, strict=True)
            for i in range(start, len(text))
        ]
        return torch.tensor(np.array(rows))


@dataclass
class BigramCursor:
    model: Bigram
    texts: list[list[int]]

    def log_pmf(self):  # type: ignore[no-untyped-def]
        import torch

        return torch.tensor(np.array([self.model.log_table[text[-1]] for text in self.texts]))

    def append(self, tokens) -> None:  # type: ignore[no-untyped-def]
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)


@pytest.fixture
def bigram() -> Callable[..., Bigram]:
    """bigram(seed, spread=1.0, vocabulary=6): a random model; bigger spread, more opinion."""

    def make(seed: int, spread: float = 1.0, vocabulary: int = 6) -> Bigram:
        logits = spread * np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
        table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return Bigram(table, ToyTokenizer("^0123456789abcdefghijklmnopqrstuvwxyz#"[:vocabulary]))

    return make
