"""Which layers of a model are trained: "all", or "top:N" for its last N blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from audit.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor, nn

ALL = "all"


def is_layers(text: str) -> bool:
    """Whether it says which layers; a model may still have fewer blocks."""
    return text == ALL or (text.startswith("top:") and text[4:].isdecimal())


def blocks_of(layers: str) -> int:
    """N of "top:N"."""
    return int(layers.removeprefix("top:"))


@contextmanager
def limited(model: nn.Module, layers: str) -> Iterator[None]:
    """Only these layers are trainable until it is left; then everything is, without gradients.

    "top:N" leaves out all but blocks: embeddings, final norm and head stay as they are.
    Raises UsageError where the model has fewer blocks.
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
    """The parameters of the last `count` blocks."""
    from torch import nn

    blocks = max(
        (m for m in model.modules() if isinstance(m, nn.ModuleList)), key=len, default=None
    )
    if blocks is None or not 1 <= count <= len(blocks):
        have = 0 if blocks is None else len(blocks)
        raise UsageError(f"layers is top:{count}, but this model has {have} blocks")
    return [parameter for block in list(blocks)[-count:] for parameter in block.parameters()]
