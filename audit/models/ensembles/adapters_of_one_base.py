"""Compute several adapters of one base as one network: the base reads each text once for all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from audit.models.adapters import is_adapted, own_weights, put, shell
from audit.models.cached import Reading
from audit.models.head import Head, head_for, positions_at_once

_BASE = "__base__"  # PEFT's name for no adapter
_PREFIX = "lora_"


def adapters_of_one_base(models: Sequence[Any]) -> bool:
    """Return whether all are LoRA adapters on the same tensors; some may be the bare base."""
    if not any(map(is_adapted, models)) or any(model.training for model in models):
        return False
    return len({frozenset(_tensors_of_base(model)) for model in models}) == 1


def _tensors_of_base(model: Any) -> set[int]:
    return {id(p) for name, p in model.named_parameters() if _PREFIX not in name}


@final
class Past:
    """Keys and values of n texts, each as all members read it."""

    def __init__(self, inner: Any, members: int) -> None:
        self.inner, self._members = inner, members

    def batch_select_indices(self, rows: Tensor) -> None:
        """Replace the texts by these rows, in this order; a row may be repeated."""
        every = rows[:, None] * self._members + torch.arange(self._members, device=rows.device)
        self.inner.batch_select_indices(every.flatten())


@final
class Together:
    """All members as one model, whose logits have an axis of members."""

    def __init__(self, models: Sequence[Any]) -> None:
        self._names = [_name(i) if is_adapted(model) else _BASE for i, model in enumerate(models)]
        adapted = [(name, m) for name, m in zip(self._names, models, strict=True) if name != _BASE]
        self._inner = _with_all(adapted)
        self.models = len(models)
        self.config = self._inner.config
        self.device = self._inner.device

    def __call__(
        self,
        input_ids: Tensor,
        past_key_values: Past | None = None,
        use_cache: bool = False,
        logits_to_keep: int = 0,
    ) -> Reading:
        """Read n rows as every member does: logits (n, last tokens, members, V).

        logits_to_keep: number of last tokens; 0: all.
        """
        past = None if past_key_values is None else past_key_values.inner
        answer = self.read(input_ids, past, use_cache, logits_to_keep)
        logits = answer.logits.unflatten(0, (len(input_ids), self.models)).transpose(1, 2)
        return Reading(logits, Past(answer.past_key_values, self.models) if use_cache else None)

    def read(self, input_ids: Tensor, past: Any, use_cache: bool, logits_to_keep: int) -> Any:
        """Read n rows as every member does: one row of the answer for each text and member."""
        return self._inner(
            input_ids=input_ids.repeat_interleave(self.models, dim=0),
            past_key_values=past,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            adapter_names=self._names * len(input_ids),
        )

    @property
    def answers(self) -> bool:
        """Try whether members answer in one batch: a layer that joins the texts of a batch, as
        OPT's do, cannot tell whose adapter reads a row."""
        try:
            with torch.inference_mode():
                self(torch.tensor([[0, 1]], device=self.device), logits_to_keep=1)
        except Exception:  # architectures raise errors of any class
            return False
        return True

    @property
    def is_parted(self) -> bool:
        """Return whether the heads are computed for few positions at a time where they are many."""
        return self._heads is not None

    def head_of_all(self, positions: int) -> Heads | None:
        """Return the heads of all members, as `head_for` does."""
        many = positions > positions_at_once(self.models * int(self.config.vocab_size))
        return self._heads if many else None

    @cached_property
    def _heads(self) -> Heads | None:
        head = head_for(self._inner, positions_at_once(1))
        if head is None:
            return None
        trunk = sum(1 for name, _ in head.trunk.named_parameters() if _PREFIX in name)
        every = sum(1 for name, _ in self._inner.named_parameters() if _PREFIX in name)
        return Heads(head, self) if trunk == every else None


@final
@dataclass(frozen=True)
class Heads:
    """The one head of all members, whose trunks have the adapters; used as a `Head` is.

    Vectors have an axis of members: (n, T, members, d).
    """

    head: Head
    together: Together

    def vectors(
        self, input_ids: Tensor, past_key_values: Past | None = None, use_cache: bool = False
    ) -> Tensor:
        """Compute the vectors of every member's trunk; the head reads no more than one of them."""
        found: list[Tensor] = []

        def keep(_trunk: Any, _read: Any, answer: Any) -> None:
            found.append(answer.last_hidden_state)
            answer.last_hidden_state = answer.last_hidden_state[:1, -1:]

        hook = self.head.trunk.register_forward_hook(keep)
        try:
            past = None if past_key_values is None else past_key_values.inner
            self.together.read(input_ids, past, use_cache, logits_to_keep=1)
        finally:
            hook.remove()
        vectors: Tensor = found[-1].unflatten(0, (-1, self.together.models))  # type: ignore[no-untyped-call]
        return vectors.transpose(1, 2)

    def logits(self, vectors: Tensor) -> Tensor:
        """Compute the logits, (n, T, members, V), after vectors."""
        flat = self.head.logits(vectors.flatten(1, 2))
        logits: Tensor = flat.unflatten(1, vectors.shape[1:3])  # type: ignore[no-untyped-call]
        return logits

    def ready(self) -> AbstractContextManager[None]:
        return self.head.ready()

    @property
    def at_once(self) -> int:
        """Count the positions whose logits are made at once."""
        return positions_at_once(self.together.models * int(self.together.config.vocab_size))


def _name(place: int) -> str:
    """Name an adapter as no layer is named: PEFT finds weights by a part of their names."""
    return f"member{place}of"


def _with_all(named: Sequence[tuple[str, Any]]) -> Any:
    """Insert the adapters of all models into one model, under their names."""
    from peft import get_peft_model  # seconds, which a dry run does not have

    first = named[0][1]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
        configs = {name: model.peft_config["default"] for name, model in named}
        bare = shell(first).unload()
        inner = get_peft_model(bare, configs[named[0][0]], adapter_name=named[0][0])
        for name, _ in named[1:]:
            inner.add_adapter(name, configs[name])
    for name, model in named:
        put(inner, own_weights(model), name)
    return inner.requires_grad_(False).eval()
