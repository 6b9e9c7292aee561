"""Limits training to the last blocks of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from audit.core.errors import UsageError
from audit.core.layers import ALL, blocks_of


@contextmanager
def limited(model: nn.Module, layers: str) -> Iterator[None]:
    """Train only these layers inside the context; afterwards the same as before, no gradients.

    What was frozen before stays so.
    layers: "all", or "top:N": the last N blocks, without embeddings, final norm and head.
    Raises UsageError where the model has fewer than N blocks.
    """
    before = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if layers != ALL:
        chosen = {id(parameter) for parameter in _top(model, blocks_of(layers))}
        for parameter in before:
            parameter.requires_grad_(id(parameter) in chosen)
    yield
    for parameter in before:
        parameter.requires_grad_(True)
        parameter.grad = None


def _top(model: nn.Module, count: int) -> list[Tensor]:
    """List the parameters of the last `count` blocks."""
    every = blocks(model)
    if not 1 <= count <= len(every):
        raise UsageError(f"layers is top:{count}, but this model has {len(every)} blocks")
    return [parameter for block in every[-count:] for parameter in block.parameters()]


def blocks(model: nn.Module) -> Sequence[Any]:
    """List the blocks of a transformer, first to last; of another model none."""
    lists: list[Any] = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    return list(max(lists, key=len, default=()))
