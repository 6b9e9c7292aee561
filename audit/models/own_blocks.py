"""Measures what a token of a large model takes, with one and three of its own blocks.

Loading such a model takes longer than a dry run should, but its blocks take alike. Two depths tell
a block from what is around it. The weights are random, which changes no time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig

from audit.core.model import ModelFolder
from audit.models import this_process
from audit.models.adapters import freeze, fresh
from audit.models.token_cost import TokenCost
from audit.models.training.fine_tuning import next_token_loss

LARGE = 50_000_000  # parameters, from which on a model is measured in this way
HUGE = 1_000_000_000  # parameters, from which on fewer tokens are read
TOKENS, FEW = 256, 128  # read at once
LENGTH = 32  # tokens of a row
DEPTHS = (1, 3)  # blocks
REPEATS = 3
QUERY = 0.9  # time of a query of one model beside a training pass: texts are written word by word
BUSY = 1.2  # time of a pass while other processes compute, beside that of a pass alone


def cost_of_token(model: ModelFolder, device: str, threads: int) -> TokenCost:
    """Measure what a token of a model takes: with adapters, where they are trained.

    Raises UsageError where no layer can have them.
    """
    tokens = FEW if model.parameters > HUGE else TOKENS
    before = torch.get_num_threads()
    this_process.prepare(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            models = [_shallow(model, blocks, device) for blocks in DEPTHS]
            kept = [_kept(inner, tokens) for inner in models]
            times = [[_seconds(inner, tokens) for inner in models] for _ in range(REPEATS)]
    finally:
        torch.set_num_threads(before)
    least = [min(every) for every in zip(*times, strict=True)]
    training = BUSY * _at_depth(model.blocks, least) / tokens
    return TokenCost(
        training=training,
        query=QUERY * training,
        kept=(_at_depth(model.blocks, kept) - _at_depth(0, kept)) / tokens,
    )


def _at_depth(blocks: int, measured: Sequence[float]) -> float:
    """Draw a line through what was measured at both depths; it does not fall."""
    few, many = DEPTHS
    slope = max(0.0, measured[1] - measured[0]) / (many - few)
    return measured[0] + (blocks - few) * slope


def _shallow(model: ModelFolder, blocks: int, device: str) -> Any:
    """Make a model of the same kind and width, with so many blocks and random weights."""
    from transformers import AutoModelForCausalLM  # two seconds, which small models do not need

    config = AutoConfig.from_pretrained(model.path, local_files_only=True, trust_remote_code=False)
    config.num_hidden_layers = blocks
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == model.blocks:  # says something of each block
            setattr(config, name, (value * blocks)[:blocks])
    dtype = config.dtype if model.lora and config.dtype else torch.float32
    auto: Any = AutoModelForCausalLM
    inner = auto.from_config(config, dtype=dtype)
    if model.lora is not None:
        freeze(inner)
        inner = fresh(inner, model.lora)
    return inner.to(device).train()


def _loss(model: Any, tokens: int) -> Tensor:
    rows = torch.randint(model.config.vocab_size, (tokens // LENGTH, LENGTH + 1))
    return next_token_loss(model, rows.tolist())


def _kept(model: Any, tokens: int) -> float:
    """Count the bytes of all tensors that a pass keeps for its way back, weights aside."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, Tensor] = {}  # in which they stay, so that none takes the place of another

    def keep(tensor: Tensor) -> Tensor:
        place, bare = tensor.untyped_storage().data_ptr(), tensor.detach()
        if place not in weights:
            kept[place] = bare
        return bare  # the tensor itself would keep the pass, and the pass the tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _loss(model, tokens)
    return float(sum(tensor.untyped_storage().nbytes() for tensor in kept.values()))


def _seconds(model: Any, tokens: int) -> float:
    """Measure the seconds of a pass forward and back."""
    began = _now(model)
    _loss(model, tokens).backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    return _now(model) - began


def _now(model: Any) -> float:
    """Read the clock once everything that was begun is done."""
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
