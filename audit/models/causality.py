"""Refuse models that do not read from left to right, one token at a time, or not always alike.

Everything here rests on it: padding comes after a text, and a next token is scored before it is
read. A model that looks ahead would have losses, gradients and clipping norms that depend on
padding, so on how long other people's texts are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.core.errors import UsageError, first_line
from audit.core.model import PreTrainedModel
from audit.models.cached import same, two_texts


def check_kind(config: Mapping[str, Any], where: Path) -> None:
    """Raise UsageError where a configuration names an encoder-decoder."""
    kind = config.get("model_type", "model of unknown type")
    if config.get("is_encoder_decoder"):
        raise UsageError(
            f"{where}: this {kind} is an encoder-decoder, which is not audited; "
            "give a decoder-only causal model"
        )


def check_causal(model: PreTrainedModel, max_length: int, where: Path) -> None:
    """Raise UsageError unless the logits of a prefix stay when other tokens follow, or none.

    They must also stay where positions are given, as DP-SGD gives them. max_length: tokens that the
    model may read.
    """
    if max_length < 2:
        return
    rows = two_texts(model, max_length)
    whole, changed = _logits(model, rows, where)
    (alone,) = _logits(model, rows[:1, : rows.shape[1] // 2], where)
    if not same(changed[:-1], whole[:-1]):
        raise UsageError(
            f"{where}: this model is not causal: what it predicts for a token depends on later "
            "ones; give one that reads from left to right (a BERT with is_decoder, for example)"
        )
    if not same(alone, whole[: len(alone)]):
        raise UsageError(
            f"{where}: what this model predicts depends on how long the text will be, so on "
            "padding; give one that reads from left to right"
        )
    _check_positions(model, rows[0], whole, where)


def _check_positions(model: PreTrainedModel, text: Tensor, expected: Tensor, where: Path) -> None:
    """Raise UsageError where a model numbers the tokens of a text otherwise than 0, 1, …"""
    places = torch.arange(len(text), device=text.device)
    try:
        with torch.inference_mode():
            answer = model(input_ids=text[None], position_ids=places[None], use_cache=False)
    except Exception:  # it takes no positions, so none can be wrong
        return
    if not same(answer.logits[0].double(), expected):
        raise UsageError(
            f"{where}: this {model.config.model_type} does not number a text's tokens 0, 1, … by "
            "itself, so DP-SGD would train another model than is read; give one that does "
            "(a BERT or a GPT-2, for example)"
        )


def _logits(model: PreTrainedModel, tokens: Tensor, where: Path) -> Tensor:
    try:
        with torch.inference_mode():
            logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    except Exception as error:  # architectures raise errors of any class
        raise UsageError(f"{where}: the model cannot be run ({first_line(error)})") from None
    return logits.double()
