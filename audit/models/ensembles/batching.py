"""Combine the models of an ensemble, so that shared weights are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from audit.core.ensemble import Ensemble, EnsembleCursor, Separate
from audit.core.language_model import Around, Cursor, LanguageModel, R, Use
from audit.core.predictor import Tokens
from audit.models.cached import Cache, cache_of
from audit.models.causal import CausalLM
from audit.models.ensembles.adapters_of_one_base import Together, adapters_of_one_base
from audit.models.ensembles.stacked_gpt2 import Stack, are_alike, is_known
from audit.models.head import positions_at_once


def batched(members: Sequence[LanguageModel]) -> Ensemble:
    """Combine the members, in their order; their weights must not change afterwards.

    GPT-2s of one shape and tokenizer are stacked: equal weights and equal members are found by
    comparison and computed once, the rest in batched products. Adapters of one base are asked in
    one batch where their layers can be. Any other members are queried one by one.
    Log-probabilities equal the members' to 1e-5 nats, in float32.
    """
    models: list[Any] = [member.inner for member in members if isinstance(member, CausalLM)]
    if len(models) < max(2, len(members)):
        return Separate(members)
    first = members[0]
    if any(member.tokenizer != first.tokenizer for member in members):
        return Separate(members)
    length = min(member.max_length for member in members)
    if adapters_of_one_base(models) and cache_of(models[0]) is Cache.SHARED:
        together: Any = Together(models)
        if not together.answers:
            return Separate(members)
        return Stacked(CausalLM(together, first.tokenizer, length), tuple(range(len(models))))
    if not all(is_known(model) and are_alike(model, models[0]) for model in models):
        return Separate(members)
    distinct, places = _distinct(models)
    stack: Any = Stack(distinct)
    return Stacked(CausalLM(stack, first.tokenizer, length), places)


def _distinct(models: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """List each distinct model once, and the index among them of each given model."""
    distinct: list[Any] = []
    places = []
    for model in models:
        known = (i for i, other in enumerate(distinct) if _are_equal(model, other))
        places.append(place := next(known, len(distinct)))
        if place == len(distinct):
            distinct.append(model)
    return distinct, tuple(places)


def _are_equal(model: Any, other: Any) -> bool:
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return model is other or all(torch.equal(mine, its) for mine, its in pairs)


@dataclass(frozen=True)
class Stacked(Around):
    """Models that are computed together, as an Ensemble.

    inner: a Stack, or adapters Together; its distributions are of shape (…, distinct members, V),
        and it shares prompts as any CausalLM does.
    places: the index of each member among the distinct ones.
    """

    inner: CausalLM
    places: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.places)

    def cursor(self, prompts: Sequence[Tokens]) -> EnsembleCursor:
        return _StackedCursor(self.inner.cursor(prompts), self.places)

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return torch.cat(self.in_parts(texts, starts, lambda log_pmfs, _: log_pmfs))

    @property
    def is_parted(self) -> bool:
        inner: Any = self.inner.inner
        return isinstance(inner, Together) and inner.is_parted

    def in_parts(self, texts: Sequence[Tokens], starts: Sequence[int], use: Use[R]) -> list[R]:
        if self._is_next_only(texts, starts):  # a cursor shares more of the prompts
            log_pmfs = self.cursor([text[:-1] for text in texts]).log_pmfs()
            return [use(log_pmfs, slice(0, len(log_pmfs)))]
        places = self.places
        return self.inner.in_parts(
            texts, starts, lambda log_pmfs, at: use(_expanded(log_pmfs, places), at)
        )

    def _is_next_only(self, texts: Sequence[Tokens], starts: Sequence[int]) -> bool:
        """Return whether only the last token is scored, after prompts of one length, and the
        distributions of all are few enough to be held at once."""
        length = len(texts[0])
        if self.is_parted and len(texts) > positions_at_once(self.count * self.vocabulary):
            return False
        equal = all(len(text) == length for text in texts)
        return equal and set(starts) == {length - 1} and 1 < length <= self.max_length + 1


@dataclass(frozen=True)
class _StackedCursor:
    inner: Cursor
    places: tuple[int, ...]

    def log_pmfs(self) -> torch.Tensor:
        return _expanded(self.inner.log_pmf(), self.places)

    def append(self, tokens: torch.Tensor) -> None:
        self.inner.append(tokens)


def _expanded(log_pmfs: torch.Tensor, places: tuple[int, ...]) -> torch.Tensor:
    """Repeat distributions of distinct members for all: (n, distinct, V) to (n, m, V)."""
    same = places == tuple(range(log_pmfs.shape[1]))
    return log_pmfs if same else log_pmfs[:, list(places)]
