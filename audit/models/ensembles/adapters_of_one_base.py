"""Compute several adapters of one base as one network: the base reads each text once for all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from audit.models.adapters import is_adapted, own_weights, put, shell
from audit.models.cached import Reading

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
        members = len(self._names)
        answer = self._inner(
            input_ids=input_ids.repeat_interleave(members, dim=0),
            past_key_values=None if past_key_values is None else past_key_values.inner,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            adapter_names=self._names * len(input_ids),
        )
        logits = answer.logits.unflatten(0, (len(input_ids), members)).transpose(1, 2)
        return Reading(logits, Past(answer.past_key_values, members) if use_cache else None)


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
