"""Knows for each kind of layer how an example's gradient follows from what the layer read.

A layer of a class that is not listed gets the rule of its form, where trying it with numbers shows
that it has this form: it looks rows up in a table, is linear, or scales what it has normalised.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear
from transformers.pytorch_utils import Conv1D

from audit.models.training.gradient_factors import OneHot, Outer, Use, Whole

_CLOSE = 1e-4  # of a layer tried with numbers, relative, in float32


def _first(module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> Tensor:
    read: Tensor = next(iter((*args, *named.values())))
    return read


@dataclass(frozen=True)
class Rule:
    """The use that a layer makes of its parameters `weight` and maybe `bias`.

    uses: from (layer, a, g) to the uses of its parameters by name. a: what it read, and g: the
        gradient at its output, (examples, tokens, …). reads: from (layer, arguments) to a.
    """

    uses: Callable[[Any, Tensor, Tensor], dict[str, Use]]
    reads: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Tensor] = _first


def _with(module: nn.Module, **parameters: Tensor) -> Any:
    """Copy a layer with other parameters and without hooks; its `forward` can be called."""
    twin = copy.copy(module)
    twin.__dict__["_parameters"] = {**module._parameters, **parameters}
    return twin


def _embedding(module: nn.Embedding, a: Tensor, g: Tensor) -> dict[str, Use]:
    if module.padding_idx is not None:
        g = g * (a != module.padding_idx)[:, :, None]
    return {"weight": Outer(OneHot(a), g)}


def _places(module: nn.Embedding, args: tuple[Any, ...], named: Mapping[str, Any]) -> Tensor:
    """Find which rows of its table a layer looks up, and by what factor it scales them.

    With (1, i) as row i of the table, the layer answers (s, s·i) where it reads s times row i.
    """
    places = torch.arange(module.num_embeddings).to(module.weight)
    table = torch.stack([torch.ones_like(places), places], dim=1)
    answer: Tensor = _with(module, weight=table).forward(*args, **named)
    return answer


def _lookup(module: nn.Embedding, a: Tensor, g: Tensor) -> dict[str, Use]:
    scale, index = a[:, :, :1], (a[:, :, 1] / a[:, :, 0]).round().long()
    return _embedding(module, index, g * scale)


def _layer_norm(module: nn.LayerNorm, a: Tensor, g: Tensor) -> dict[str, Use]:
    normal = layer_norm(a, module.normalized_shape, eps=module.eps)
    return {"weight": Whole((g * normal).sum(dim=1)), "bias": Whole(g.sum(dim=1))}


def _scaled(module: Any, a: Tensor, g: Tensor) -> dict[str, Use]:
    """y = n(a)·(w + c) + b, entry by entry: RMSNorm, and whatever else has this form."""
    a, g = (x.reshape(len(x), -1, *module.weight.shape) for x in (a, g))
    return {
        "weight": Whole((g * _normal(module, a)).sum(dim=1).flatten(1)),
        "bias": Whole(g.sum(dim=1).flatten(1)),
    }


def _normal(module: Any, a: Tensor) -> Tensor:
    """Compute n(a), the change of y while w grows from 0 to 1, whatever c and b are."""
    zero, one = torch.zeros_like(module.weight), torch.ones_like(module.weight)
    low, high = (_with(module, weight=w).forward(a) for w in (zero, one))
    change: Tensor = high - low
    return change


_LINEAR = Rule(lambda module, a, g: {"weight": Outer(g, a), "bias": Whole(g.sum(dim=1))})
_LOOKUP = Rule(_lookup, _places)
_SCALED = Rule(_scaled)
RULES: dict[type, Rule] = {
    nn.Linear: _LINEAR,
    Conv1D: Rule(lambda module, a, g: {"weight": Outer(a, g), "bias": Whole(g.sum(dim=1))}),
    nn.Embedding: Rule(_embedding),
    nn.LayerNorm: Rule(_layer_norm),
}


def rule_of(module: nn.Module) -> Rule:
    """Choose the rule of a layer's class, else of its form; `has_rule` checks that it fits."""
    if type(module) in RULES:
        return RULES[type(module)]
    if isinstance(module, nn.Embedding):
        return _LOOKUP
    return _LINEAR if isinstance(module, nn.Linear) else _SCALED


def has_rule(module: Any) -> bool:
    """Return whether `rule_of` is exact for a layer, trying one of an unknown class with numbers.

    A table looked up in another way cannot be tried here: the comparison with a plain loop does.
    """
    if getattr(module, "max_norm", None) or getattr(module, "scale_grad_by_freq", False):
        return False
    if type(module) in RULES or isinstance(module, nn.Embedding):
        return True
    if not {"weight"} <= {*dict(module.named_parameters())} <= {"weight", "bias"}:
        return False
    try:
        with torch.no_grad():
            return _is_linear(module) if isinstance(module, nn.Linear) else _is_scaled(module)
    except Exception:  # a layer of another form may raise anything
        return False


def _is_linear(module: nn.Linear) -> bool:
    a = _numbers(module.weight, (2, 3, module.in_features))
    return _close(module.forward(a), linear(a, module.weight, module.bias))


def _is_scaled(module: Any) -> bool:
    """Try y = n(a)·(w + c) + b with numbers, and n token by token."""
    a = _numbers(module.weight, (2, 3, *module.weight.shape))
    w, b = _numbers(a, module.weight.shape), _numbers(a, module.weight.shape).flip(-1)
    biased = getattr(module, "bias", None) is not None
    none, some = ({"bias": x} if biased else {} for x in (torch.zeros_like(b), b))
    still = _with(module, weight=torch.zeros_like(w), **none).forward(a)
    normal = _normal(module, a)
    expected = still + normal * w + (b if biased else 0)
    alone = [_normal(module, row[None, None])[0, 0] for row in a.flatten(0, 1)]
    answer = _with(module, weight=w, **some).forward(a)
    return _close(answer, expected) and _close(normal.flatten(0, 1), torch.stack(alone))


def _numbers(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Make numbers around 0 without a pattern, the same each time."""
    count = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float64)
    return (count * count * 0.618).sin().view(shape).to(like)


def _close(found: Tensor, expected: Tensor) -> bool:
    size = expected.abs().max()
    return found.shape == expected.shape and bool((found - expected).abs().max() <= _CLOSE * size)
