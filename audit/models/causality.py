"""Refuse models that do not read from left to right, one token at a time, or not always alike.

Everything here rests on it: padding comes after a text, and a next token is scored before it is
read. A model that looks ahead would have losses, gradients and clipping norms that depend on
padding, so on how long other people's texts are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.core.errors import UsageError, first_line
from audit.core.model import PreTrainedModel

_TOKENS = 16  # of the text that a model is tried with
_ROUNDING = 1000  # times the machine epsilon, of the largest logit


def check_kind(config: Mapping[str, Any], where: Path) -> None:
    """Raise UsageError where a configuration names a mixture of experts or an encoder-decoder."""
    kind = config.get("model_type", "model of unknown type")
    if config.get("is_encoder_decoder"):
        raise UsageError(
            f"{where}: this {kind} is an encoder-decoder, which is not audited; "
            "give a decoder-only causal model"
        )
    experts = max(_experts(config), default=0)
    if experts > 1:
        raise UsageError(
            f"{where}: this {kind} is a mixture of {experts} experts, which is not audited; "
            "give a dense causal model"
        )


def _experts(config: Mapping[str, Any]) -> Iterator[int]:
    """Yield every number of experts that a configuration names, at any depth."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _experts(value)
        elif str(key).endswith(("num_experts", "_experts")):
            numbers = value if isinstance(value, list | tuple) else [value]  # one for each layer
            yield from (number for number in numbers if isinstance(number, int))


def check_causal(model: PreTrainedModel, max_length: int, where: Path) -> None:
    """Raise UsageError unless the logits of a prefix stay when other tokens follow, or none.

    They must also stay where positions are given, as DP-SGD gives them, and where a cache keeps the
    beginning, as attacks read. max_length: tokens that the model may read.
    """
    length = min(max_length, _TOKENS)
    if length < 2:
        return
    vocabulary: int = model.config.vocab_size
    text = (torch.arange(1, length + 1) * 7919 % vocabulary).to(model.device)
    other = text.clone()
    other[-1] = (text[-1] + vocabulary // 2) % vocabulary
    rows = torch.stack([text, other])
    whole, changed = _logits(model, rows, where)
    (alone,) = _logits(model, text[None, : length // 2], where)
    if not _same(changed[:-1], whole[:-1]):
        raise UsageError(
            f"{where}: this model is not causal: what it predicts for a token depends on later "
            "ones; give one that reads from left to right (a BERT with is_decoder, for example)"
        )
    if not _same(alone, whole[: len(alone)]):
        raise UsageError(
            f"{where}: what this model predicts depends on how long the text will be, so on "
            "padding; give one that reads from left to right"
        )
    _check_positions(model, text, whole, where)
    if length >= 4:
        _check_cache(model, rows, torch.stack([whole, changed]), where)


def _check_positions(model: PreTrainedModel, text: Tensor, expected: Tensor, where: Path) -> None:
    """Raise UsageError where a model numbers the tokens of a text otherwise than 0, 1, …"""
    places = torch.arange(len(text), device=text.device)
    try:
        with torch.inference_mode():
            answer = model(input_ids=text[None], position_ids=places[None], use_cache=False)
    except Exception:  # it takes no positions, so none can be wrong
        return
    if not _same(answer.logits[0].double(), expected):
        raise UsageError(
            f"{where}: this {model.config.model_type} does not number a text's tokens 0, 1, … by "
            "itself, so DP-SGD would train another model than is read; give one that does "
            "(a BERT or a GPT-2, for example)"
        )


def _check_cache(model: PreTrainedModel, rows: Tensor, expected: Tensor, where: Path) -> None:
    """Raise UsageError where rows cannot go on from one cached beginning, as attacks read them."""
    kind = model.config.model_type
    try:
        with torch.inference_mode():
            found = _read_on(model, rows)
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(
            f"{where}: this {kind} cannot go on from a cached beginning in several texts at once, "
            f"as attacks read ({first_line(error)}); give another model"
        ) from None
    if found is not None and not _same(found.double(), expected[:, -found.shape[1] :]):
        raise UsageError(
            f"{where}: this {kind} predicts something else from a cached beginning than from the "
            "whole text, and attacks read both; give another model"
        )


def _read_on(model: Any, rows: Tensor) -> Tensor | None:
    """Compute the last logits, (rows, tokens, V), from a cache; None where the model has none.

    The beginning is read once for all rows where its cache can be shared, then several tokens, and
    then one.
    """
    begun = model(input_ids=rows[:1, : rows.shape[1] // 2], use_cache=True, logits_to_keep=1)
    cache: Any = getattr(begun, "past_key_values", None)
    rest = rows
    if hasattr(cache, "batch_select_indices"):
        cache.batch_select_indices(rows.new_zeros(len(rows)))
        rest = rows[:, rows.shape[1] // 2 :]
    else:
        cache = None
    some = model(input_ids=rest[:, :-1], past_key_values=cache, use_cache=True)
    cache = getattr(some, "past_key_values", None)
    if cache is None:
        return None
    last = model(input_ids=rest[:, -1:], past_key_values=cache, use_cache=True)
    return torch.cat([some.logits, last.logits], dim=1)


def _logits(model: PreTrainedModel, tokens: Tensor, where: Path) -> Tensor:
    try:
        with torch.inference_mode():
            logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(f"{where}: the model cannot be run ({first_line(error)})") from None
    return logits.double()


def _same(found: Tensor, expected: Tensor) -> bool:
    """Return whether logits agree but for rounding; NaN agrees with NaN."""
    size = expected.nan_to_num().abs().max()
    limit = _ROUNDING * torch.finfo(torch.float32).eps * size
    return bool(((found - expected).nan_to_num().abs() <= limit).all())
