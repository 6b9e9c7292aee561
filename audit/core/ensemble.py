"""Several language models that read the same texts, and their plain mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from audit.core.language_model import (
    Around,
    Cursor,
    LanguageModel,
    R,
    Reader,
    Use,
    at_once,
    kept_of,
    runs_of,
)
from audit.core.predictor import Tokenizer, Tokens


class EnsembleCursor(Protocol):
    """State of m models that read n texts together, one token at a time."""

    def log_pmfs(self) -> torch.Tensor:
        """Return each model's next-token distribution after each text: (n, m, V), float64, nats."""

    def append(self, tokens: torch.Tensor) -> None:
        """Append one token to each text; shape (n,)."""


class Ensemble(Reader, Protocol):
    """m language models with one vocabulary, queried together."""

    @property
    def count(self) -> int:
        """The number m of models."""

    @property
    def kept(self) -> int:
        """The number of keys and values that all of them keep of a token."""

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        """Read prompts of *equal length*, to which tokens can then be appended."""

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        """Return the models' distributions of every text[start:], one text after the other: shape
        (Σ len(text) − start, m, V), float64, nats. Each start is at least 1."""

    @property
    def is_parted(self) -> bool:
        """Return whether `in_parts` holds the distributions of few positions at a time."""

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        """Use the rows of `log_pmfs`, with their place among all, in order."""


@dataclass(frozen=True)
class Separate:
    """Queries each model separately; works for all models."""

    members: Sequence[LanguageModel]

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def kept(self) -> int:
        return sum(map(kept_of, self.members))

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

    is_parted = False

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        log_pmfs = self.log_pmfs(texts, starts)
        return [use(log_pmfs, slice(0, len(log_pmfs)))]


@dataclass(frozen=True)
class _SeparateCursor:
    cursors: tuple[Cursor, ...]

    def log_pmfs(self) -> torch.Tensor:
        return torch.stack([cursor.log_pmf() for cursor in self.cursors], dim=1)

    def append(self, tokens: torch.Tensor) -> None:
        for cursor in self.cursors:
            cursor.append(tokens)


@dataclass(frozen=True)
class Mean(Around):
    """h̄, the mean of an ensemble's pmfs, as one language model without any protection.

    The models' own distributions are held for some of the texts at a time.
    """

    inner: Ensemble

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        most = at_once(len(prompts), self._numbers)
        firsts = range(0, len(prompts), most)
        return _MeanCursor(
            tuple(self.inner.cursor(prompts[first : first + most]) for first in firsts), most
        )

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return torch.cat(self.in_parts(texts, starts, lambda log_pmfs, _: log_pmfs))

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        """Use the rows of `log_pmfs`, some at a time, as `read_in_parts` does."""
        lengths, read = list(map(len, texts)), list[R]()
        most = sum(lengths) if self.inner.is_parted else at_once(sum(lengths), self._numbers)
        first = 0
        for run in runs_of(lengths, most):

            def use_mean(log_pmfs: torch.Tensor, at: slice, first: int = first) -> R:
                return use(log_mean(log_pmfs), slice(first + at.start, first + at.stop))

            read += self.inner.in_parts(texts[run], starts[run], use_mean)
            first += sum(lengths[run]) - sum(starts[run])
        return read

    @property
    def _numbers(self) -> int:
        return self.inner.count * self.inner.vocabulary


@dataclass(frozen=True)
class _MeanCursor:
    """inner: cursors of the texts, each of `most` of them, the last of what is left."""

    inner: tuple[EnsembleCursor, ...]
    most: int

    def log_pmf(self) -> torch.Tensor:
        return torch.cat([log_mean(cursor.log_pmfs()) for cursor in self.inner])

    def append(self, tokens: torch.Tensor) -> None:
        for cursor, some in zip(self.inner, torch.split(tokens, self.most), strict=True):
            cursor.append(some)


def log_mean(log_pmfs: torch.Tensor) -> torch.Tensor:
    """Compute log of the mean of m pmfs from their logs: (n, m, V) to (n, V), nats."""
    return torch.logsumexp(log_pmfs, dim=1) - math.log(log_pmfs.shape[1])


@dataclass(frozen=True)
class Selected(Around):
    """Some members of an ensemble. All are read, so the numbers of one do not depend on who else is
    selected: models that are computed together may differ in their last digits.

    places: indices of the selected among the members. of: number of members of the whole, which
        decides how many queries are read at once.
    """

    inner: Ensemble
    places: tuple[int, ...]
    of: int

    @property
    def count(self) -> int:
        return self.inner.count

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        return _SelectedCursor(self.inner.cursor(prompts), self.places)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return self.inner.log_pmfs(texts, starts)[:, list(self.places)]

    @property
    def is_parted(self) -> bool:
        return self.inner.is_parted

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        places = list(self.places)
        return self.inner.in_parts(texts, starts, lambda all_, at: use(all_[:, places], at))


@dataclass(frozen=True)
class _SelectedCursor:
    inner: EnsembleCursor
    places: tuple[int, ...]

    def log_pmfs(self) -> torch.Tensor:
        return self.inner.log_pmfs()[:, list(self.places)]

    def append(self, tokens: torch.Tensor) -> None:
        self.inner.append(tokens)
