"""Try how far a model can go on from what it has read, as attacks read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

_TOKENS = 16  # of the text that a model is tried with
_ROUNDING = 1000  # times the machine epsilon, of the largest logit


@dataclass(frozen=True)
class Reading:
    """The answer of a model that is called as one of Hugging Face.

    past_key_values: what it goes on from after the last token; None where that is not kept.
    """

    logits: Tensor
    past_key_values: Any


class Cache(Enum):
    """The use of a model's cache that is exact when more tokens follow."""

    SHARED = "several texts that begin alike go on from one beginning"
    OWN = "each text goes on by one token"
    NONE = "texts are read anew"


_known: WeakKeyDictionary[Any, Cache] = WeakKeyDictionary()


def cache_of(model: Any) -> Cache:
    """Return which use of a model's cache is exact, trying it with numbers once."""
    if hasattr(model, "models"):  # several that are computed together, of a kind that was tried
        return Cache.SHARED
    if model not in _known:
        _known[model] = _tried(model)
    return _known[model]


def two_texts(model: Any, most: int | None) -> Tensor:
    """Make two texts of at most `most` tokens, (2, T), which differ in their last token alone."""
    vocabulary, length = model.config.vocab_size, min(_TOKENS, most or _TOKENS)
    text = torch.arange(1, length + 1, device=model.device) * 7919 % vocabulary
    other = text.clone()
    other[-1] = (text[-1] + vocabulary // 2) % vocabulary
    return torch.stack([text, other])


def _tried(model: Any) -> Cache:
    rows = two_texts(model, getattr(model.config, "max_position_embeddings", None))
    with torch.inference_mode():
        whole = model(input_ids=rows, use_cache=False).logits.double()
        if _is_right(_from_one_beginning, model, rows, whole):
            return Cache.SHARED
        return Cache.OWN if _is_right(_token_by_token, model, rows, whole) else Cache.NONE


def _is_right(read: Any, model: Any, rows: Tensor, expected: Tensor) -> bool:
    try:
        found = read(model, rows).double()
    except Exception:  # architectures raise errors of any class
        return False
    return same(found, expected[:, -found.shape[1] :])


def _from_one_beginning(model: Any, rows: Tensor) -> Tensor:
    """Compute the last logits, (rows, tokens, V), from a beginning that is read once for all rows;
    then come several tokens, and then one."""
    half = rows.shape[1] // 2
    cache: Any = model(input_ids=rows[:1, :half], use_cache=True, logits_to_keep=1).past_key_values
    cache.batch_select_indices(rows.new_zeros(len(rows)))
    some = model(input_ids=rows[:, half:-1], past_key_values=cache, use_cache=True)
    last = model(input_ids=rows[:, -1:], past_key_values=some.past_key_values, use_cache=True)
    return torch.cat([some.logits, last.logits[:, -1:]], dim=1)


def _token_by_token(model: Any, rows: Tensor) -> Tensor:
    """Compute the last logits, (rows, tokens, V), reading one token after another."""
    half = rows.shape[1] // 2
    answer = model(input_ids=rows[:, :half], use_cache=True)
    logits = [answer.logits[:, -1:]]
    for place in range(half, rows.shape[1]):
        cache = answer.past_key_values
        answer = model(input_ids=rows[:, place : place + 1], past_key_values=cache, use_cache=True)
        logits.append(answer.logits)
    return torch.cat(logits, dim=1)


def same(found: Tensor, expected: Tensor) -> bool:
    """Return whether logits agree but for rounding; NaN agrees with NaN."""
    size = expected.nan_to_num().abs().max()
    limit = _ROUNDING * torch.finfo(torch.float32).eps * size
    return bool(((found - expected).nan_to_num().abs() <= limit).all())
