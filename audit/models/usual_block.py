"""Measures what a token of a small model takes, with a block of the usual kind and its size.

Importing the model's own kind would take longer than the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention

from audit.core.model import ModelFolder
from audit.models.sizes import HEAD, width_of
from audit.models.token_cost import TokenCost

TOKENS = 256  # read at once
LENGTH = 32  # tokens of a row
REPEATS = 5
# Measured with the embedded model on two idle cores; see docs/performance.md.
PASS = 1.6  # time of a training pass over a token beside that of the block
QUERY = 0.6  # time of a query of one model beside a training pass over a token
KEPT = 17  # numbers that a block keeps of a token for the way back, in widths of the model


def cost_of_token(model: ModelFolder, device: str, threads: int) -> TokenCost:
    """Measure what a token of a model takes, by one usual block and a head."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        training = PASS * min(_seconds(model, device, TOKENS) for _ in range(REPEATS)) / TOKENS
    finally:
        torch.set_num_threads(before)
    kept = 4.0 * KEPT * width_of(model) * max(1, model.blocks)
    return TokenCost(training, QUERY * training, kept)


def _seconds(model: ModelFolder, device: str, tokens: int) -> float:
    """Measure the seconds of all blocks, from one of them, and of the head."""
    blocks = max(1, model.blocks)
    width = width_of(model)
    block, head = _Block(width).to(device), nn.Linear(width, model.vocabulary, False, device)
    x = torch.zeros(tokens // LENGTH, LENGTH, width, device=device)
    with torch.random.fork_rng(devices=[]):
        inside = _timed(lambda: block(x).sum(), device)
        targets = torch.zeros(tokens, dtype=torch.long, device=device)
        outside = _timed(lambda: cross_entropy(head(x).flatten(0, 1), targets), device)
    return blocks * inside + outside


def _timed(loss: Callable[[], Tensor], device: str) -> float:
    _wait(device)
    began = time.perf_counter()
    loss().backward()  # type: ignore[no-untyped-call]
    _wait(device)
    return time.perf_counter() - began


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@final
class _Block(nn.Module):
    """A transformer block with the usual sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.attention(layer_norm(x, (width,))).chunk(3, dim=-1)
        q, k, v = (p.view(rows, length, -1, HEAD).transpose(1, 2) for p in parts)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        y: Tensor = x + self.down(gelu(self.up(layer_norm(x, (width,)))))
        return y
