"""Hold the weights of a frozen model in bfloat16 and compute with them in float32.

Most models are stored in bfloat16, so nothing is lost, and a frozen base takes half the memory.
Activations are not rounded to bfloat16, and that is deliberate: such rounding depends on the shape
of a batch, so one person's text would move the clipped gradients of all others, by up to a
hundredth of their norms, which no clipping norm bounds. In float32 it is a millionth.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from transformers.pytorch_utils import Conv1D

HALF = (torch.bfloat16, torch.float16)


class _Product(torch.autograd.Function):
    """x·Wᵀ + b for a frozen W (out, in), of which no copy in float32 is kept for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return linear(x, weight.to(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        (g,) = gradients
        return g @ weight.to(g.dtype), None, None


class HeldLinear(nn.Linear):
    """A frozen linear layer whose weight is in bfloat16."""

    def forward(self, input: Tensor) -> Tensor:
        answer: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return answer


class HeldConv1D(Conv1D):
    """A frozen Conv1D, as GPT-2 has, whose weight is in bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = _Product.apply(x, self.weight.T, self.bias)  # type: ignore[no-untyped-call]
        return answer


class HeldEmbedding(nn.Embedding):
    """A frozen table in bfloat16."""

    def forward(self, input: Tensor) -> Tensor:
        return embedding(input, self.weight).float()


_HELD: dict[type, type] = {
    nn.Linear: HeldLinear,
    Conv1D: HeldConv1D,
    nn.Embedding: HeldEmbedding,
}
_PLAIN = {held: plain for plain, held in _HELD.items()}


def hold(model: nn.Module) -> None:
    """Turn every frozen matrix into bfloat16 that loses nothing by it, until `let_go`.

    Layers of any other class, and what they share with others, are in float32.
    """
    plain: list[Any] = [m for m in model.modules() if type(m) in _HELD]
    owners = [m for m in plain if not m.weight.requires_grad]
    used_elsewhere = {
        id(p)
        for m in model.modules()
        for name, p in m.named_parameters(recurse=False)
        if type(m) not in _HELD or name != "weight"
    }
    weights = {id(m.weight): m.weight for m in owners}
    held = {key for key, w in weights.items() if key not in used_elsewhere and _is_bfloat16(w)}
    for tensor in (*model.parameters(), *model.buffers()):
        if id(tensor) in held:
            tensor.data = tensor.data.bfloat16()
        elif tensor.dtype in HALF:
            tensor.data = tensor.data.float()
    for module in owners:
        if id(module.weight) in held:
            module.__class__ = _HELD[type(module)]


def let_go(model: nn.Module) -> None:
    """Turn what is held into float32 again."""
    for module in model.modules():
        if type(module) in _PLAIN:
            module.weight.data = module.weight.data.float()  # nothing, where a tied one has been
            module.__class__ = _PLAIN[type(module)]


@contextmanager
def in_float32(layer: Any) -> Iterator[None]:
    """Turn what one layer holds into float32 inside the context; layers tied to it stay."""
    if type(layer) not in _PLAIN:
        yield
        return
    held = layer.weight
    layer.weight = nn.Parameter(held.detach().float(), requires_grad=False)
    try:
        yield
    finally:
        layer.weight = held


def computes_in_half(model: nn.Module) -> bool:
    """Return whether a layer has parameters of half precision that it does not merely hold."""
    return any(
        p.dtype in HALF
        for m in model.modules()
        if type(m) not in _PLAIN
        for p in m.parameters(recurse=False)
    )


def _is_bfloat16(weight: Tensor) -> bool:
    if weight.dtype != torch.float32:
        return weight.dtype == torch.bfloat16
    return torch.equal(weight, weight.bfloat16().float())
