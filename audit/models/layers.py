"""Limits training to the last blocks of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from audit.core.errors import UsageError
from audit.core.layers import ALL, blocks_of


@contextmanager
def limited(model: nn.Module, layers: str) -> Iterator[None]:
    """Makes only these layers trainable inside the context; afterwards all are, without gradients.

    layers: "all", or "top:N": the last N blocks, without embeddings, final norm and head.
    Raises UsageError where the model has fewer than N blocks.
    """
    if layers != ALL:
        chosen = _top(model, blocks_of(layers))
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for weight in chosen:
            weight.requires_grad_(True)
    yield
    for parameter in model.parameters():
        parameter.requires_grad_(True)
        parameter.grad = None


def _top(model: nn.Module, count: int) -> list[Tensor]:
    """Lists the parameters of the last `count` blocks."""
    blocks = max(
        (m for m in model.modules() if isinstance(m, nn.ModuleList)), key=len, default=None
    )
    if blocks is None or not 1 <= count <= len(blocks):
        have = 0 if blocks is None else len(blocks)
        raise UsageError(f"layers is top:{count}, but this model has {have} blocks")
    return [parameter for block in list(blocks)[-count:] for parameter in block.parameters()]
