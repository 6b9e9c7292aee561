"""Refuses models that do not read from left to right, one token at a time.

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
    """Raises UsageError where a configuration names a mixture of experts or an encoder-decoder."""
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
    """Yields every number of experts that a configuration names, at any depth."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _experts(value)
        elif isinstance(value, int) and key.endswith(("num_experts", "_experts")):
            yield value


def check_causal(model: PreTrainedModel, max_length: int, where: Path) -> None:
    """Raises UsageError unless the logits of a prefix stay when other tokens follow, or none.

    max_length: tokens that the model may read.
    """
    length = min(max_length, _TOKENS)
    if length < 2:
        return
    vocabulary: int = model.config.vocab_size
    text = (torch.arange(1, length + 1) * 7919 % vocabulary).to(model.device)
    other = text.clone()
    other[-1] = (text[-1] + vocabulary // 2) % vocabulary
    whole, changed = _logits(model, torch.stack([text, other]), where)
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


def _logits(model: PreTrainedModel, tokens: Tensor, where: Path) -> Tensor:
    try:
        with torch.inference_mode():
            logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(f"{where}: the model cannot be run ({first_line(error)})") from None
    return logits.double()


def _same(found: Tensor, expected: Tensor) -> bool:
    """Tells whether logits agree but for rounding; what is no number agrees with itself."""
    size = expected.nan_to_num().abs().max()
    limit = _ROUNDING * torch.finfo(torch.float32).eps * size
    return bool(((found - expected).nan_to_num().abs() <= limit).all())
