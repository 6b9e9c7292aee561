"""Several language models that read the same texts, and their plain mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from audit.core.language_model import Cursor, LanguageModel
from audit.core.predictor import Tokenizer, Tokens


class EnsembleCursor(Protocol):
    """State of m models that read n texts together, one token at a time."""

    def log_pmfs(self) -> torch.Tensor:
        """Gives each model's next-token distribution after each text: (n, m, V), float64, nats."""

    def append(self, tokens: torch.Tensor) -> None:
        """Appends one token to each text; shape (n,)."""


class Ensemble(Protocol):
    """m language models with one vocabulary, queried together."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def max_length(self) -> int: ...

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        """Reads prompts of *equal length*, to which tokens can then be appended."""

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        """Gives the models' distributions of every text[start:], one text after the other: shape
        (Σ len(text) − start, m, V), float64, nats. Each start is at least 1."""


@dataclass(frozen=True)
class Separate:
    """Queries each model separately; works for all models."""

    members: Sequence[LanguageModel]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.members[0].tokenizer

    @property
    def vocabulary(self) -> int:
        return self.members[0].vocabulary

    @property
    def max_length(self) -> int:
        return min(member.max_length for member in self.members)

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        return _SeparateCursor(tuple(member.cursor(prompts) for member in self.members))

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return torch.stack([member.log_pmfs(texts, starts) for member in self.members], dim=1)


@dataclass(frozen=True)
class _SeparateCursor:
    cursors: tuple[Cursor, ...]

    def log_pmfs(self) -> torch.Tensor:
        return torch.stack([cursor.log_pmf() for cursor in self.cursors], dim=1)

    def append(self, tokens: torch.Tensor) -> None:
        for cursor in self.cursors:
            cursor.append(tokens)


@dataclass(frozen=True)
class Mean:
    """h̄, the mean of an ensemble's pmfs, as one language model without any protection."""

    ensemble: Ensemble

    @property
    def tokenizer(self) -> Tokenizer:
        return self.ensemble.tokenizer

    @property
    def vocabulary(self) -> int:
        return self.ensemble.vocabulary

    @property
    def max_length(self) -> int:
        return self.ensemble.max_length

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        return _MeanCursor(self.ensemble.cursor(prompts))

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return log_mean(self.ensemble.log_pmfs(texts, starts))


@dataclass(frozen=True)
class _MeanCursor:
    inner: EnsembleCursor

    def log_pmf(self) -> torch.Tensor:
        return log_mean(self.inner.log_pmfs())

    def append(self, tokens: torch.Tensor) -> None:
        self.inner.append(tokens)


def log_mean(log_pmfs: torch.Tensor) -> torch.Tensor:
    """Computes log of the mean of m pmfs from their logs: (n, m, V) to (n, V), nats."""
    return torch.logsumexp(log_pmfs, dim=1) - math.log(log_pmfs.shape[1])


@dataclass(frozen=True)
class Selected:
    """Some members of an ensemble. All are read, so the numbers of one do not depend on who else is
    selected: models that are computed together may differ in their last digits.

    places: indices of the selected among the members. of: number of members of the whole, which
        decides how many queries are read at once.
    """

    inner: Ensemble
    places: tuple[int, ...]
    of: int

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def vocabulary(self) -> int:
        return self.inner.vocabulary

    @property
    def max_length(self) -> int:
        return self.inner.max_length

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        return _SelectedCursor(self.inner.cursor(prompts), self.places)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return self.inner.log_pmfs(texts, starts)[:, list(self.places)]


@dataclass(frozen=True)
class _SelectedCursor:
    inner: EnsembleCursor
    places: tuple[int, ...]

    def log_pmfs(self) -> torch.Tensor:
        return self.inner.log_pmfs()[:, list(self.places)]

    def append(self, tokens: torch.Tensor) -> None:
        self.inner.append(tokens)
