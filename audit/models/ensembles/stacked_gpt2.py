"""Compute several GPT-2s of one shape as one network; equal lower layers are computed once.

Every weight and every activation has a first axis of members, of length m, or 1 where all members
agree. Activations have length 1 up to the first weights that differ, so members with the same lower
blocks share them without any setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from audit.models.cached import Reading

ACTIVATIONS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}
_LAYERS = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
_ROOM = 32  # tokens of spare room whenever the cache of keys and values grows


def is_known(model: Any) -> bool:
    """Return whether a model is a GPT-2 all of whose parts are computed here."""
    from transformers import GPT2LMHeadModel  # two seconds, which a dry run does not need

    if type(model) is not GPT2LMHeadModel or model.training:
        return False
    config: Any = model.config
    layers = [f"h.{i}.{layer}" for i in range(config.n_layer) for layer in _LAYERS]
    both = [f"{layer}.{part}" for layer in (*layers, "ln_f") for part in ("weight", "bias")]
    read = {f"transformer.{name}" for name in ("wte.weight", "wpe.weight", *both)}
    return (
        config.activation_function in ACTIVATIONS
        and config.scale_attn_weights
        and not config.scale_attn_by_inverse_layer_idx
        and not config.reorder_and_upcast_attn
        and {*model.state_dict()} == read | {"lm_head.weight"}
    )


def are_alike(model: Any, other: Any) -> bool:
    """Return whether two known models differ in nothing but the values of their weights."""
    kinds = [
        (
            one.config.activation_function,
            one.config.n_head,
            one.config.layer_norm_epsilon,
            [(p.shape, p.dtype, p.device) for p in one.state_dict().values()],
            [name for name, _ in one.named_parameters()],  # tied weights have one name
        )
        for one in (model, other)
    ]
    return kinds[0] == kinds[1]


@final
class Past:
    """Keys and values of n texts: of each block (2, members, n, heads, room, width)."""

    def __init__(self) -> None:
        self.length = 0
        self._blocks: list[Tensor] = []

    def joined(self, block: int, new: Tensor) -> Tensor:
        """Append new keys and values and return those of all tokens."""
        if block == len(self._blocks):
            self._blocks.append(new)
        end = self.length + new.shape[-2]
        if self._blocks[block].shape[-2] < end:
            wider = new.new_empty((*new.shape[:-2], end + _ROOM, new.shape[-1]))
            wider[..., : self.length, :] = self._blocks[block][..., : self.length, :]
            self._blocks[block] = wider
        self._blocks[block][..., self.length : end, :] = new
        return self._blocks[block][..., :end, :]

    def batch_select_indices(self, rows: Tensor) -> None:
        """Replace the texts by these rows, in this order; a row may be repeated."""
        read = (block[..., : self.length, :] for block in self._blocks)
        self._blocks = [block.index_select(2, rows) for block in read]


@final
class Stack:
    """Known GPT-2s, all alike, no two of them equal.

    Called as a Hugging Face causal model, but with an axis of members in its logits. Weights that
    all models share are the first model's tensors; the rest are copied.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        config: Any = models[0].config
        bodies = [model.transformer for model in models]
        tied = all(model.lm_head.weight is model.transformer.wte.weight for model in models)
        self.config = config
        self.models = len(models)
        self._tokens = _together([body.wte.weight for body in bodies])
        self._places = _together([body.wpe.weight for body in bodies])
        self._blocks = [
            [
                _Layer.of([body.h[i].get_submodule(name) for body in bodies], config)
                for name in _LAYERS
            ]
            for i in range(config.n_layer)
        ]
        self._norm = _Layer.of([body.ln_f for body in bodies], config)
        heads = [model.lm_head.weight for model in models]
        self._head = self._tokens if tied else _together(heads)

    @property
    def device(self) -> torch.device:
        return self._tokens.device

    def __call__(
        self,
        input_ids: Tensor,
        past_key_values: Past | None = None,
        use_cache: bool = False,
        logits_to_keep: int = 0,
    ) -> Reading:
        """Compute logits (n, T or `logits_to_keep`, m, V) of the last tokens; 0: of all."""
        past = past_key_values or Past()
        length = input_ids.shape[1]
        keep = logits_to_keep or length
        places = torch.arange(past.length, past.length + length, device=self.device)
        x = self._tokens[:, input_ids] + self._places[:, places, None].transpose(1, 2)
        for i in range(len(self._blocks)):
            last = i == len(self._blocks) - 1
            x = self._through(i, x, past, keep if last else length)
        past.length += length
        return Reading(self._logits(x), past if use_cache else None)

    def _through(self, block: int, x: Tensor, past: Past, keep: int) -> Tensor:
        """Compute a block: (members, n, T, width) to (members, n, `keep` last tokens, width)."""
        ln_1, c_attn, c_proj, ln_2, mlp_in, mlp_out = self._blocks[block]
        qkv = c_attn.linear(ln_1.normed(x))
        qkv = qkv.view(*qkv.shape[:3], 3, self.config.n_head, -1).permute(3, 0, 1, 4, 2, 5)
        seen = past.joined(block, qkv[1:])
        x = x[:, :, -keep:] + c_proj.linear(_attention(qkv[0, ..., -keep:, :], seen))
        inner = mlp_in.linear(ln_2.normed(x))
        activated = gelu(inner, approximate=ACTIVATIONS[self.config.activation_function])
        return x + mlp_out.linear(activated)

    def _logits(self, x: Tensor) -> Tensor:
        """Compute logits (n, T, m, V) from the last block's (m, n, T, width)."""
        x = self._norm.normed(x)
        if len(self._head) == 1:
            x = x.movedim(0, 2)
            return linear(x.flatten(0, 2), self._head[0]).view(*x.shape[:3], -1)
        rows = x.flatten(1, 2).expand(len(self._head), -1, -1)
        return (rows @ self._head.mT).view(-1, *x.shape[1:3], len(self._head[0])).movedim(0, 2)


@dataclass(frozen=True)
class _Layer:
    """Weights (b, in, out) or (b, width) and biases (b, out or width) of m layers; b is 1 or m."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    @staticmethod
    def of(layers: Sequence[Any], config: Any) -> _Layer:
        weights, biases = [each.weight for each in layers], [each.bias for each in layers]
        weight, bias = _together(weights), _together(biases)
        if len(weight) != len(bias):  # only one of the two is equal in all: both are stacked
            weight, bias = torch.stack(weights).detach(), torch.stack(biases).detach()
        return _Layer(weight, bias, config.layer_norm_epsilon)

    def linear(self, x: Tensor) -> Tensor:
        """Compute x·W + b for x of shape (1 or m, n, T, in)."""
        if len(self.weight) == 1:
            rows = torch.addmm(self.bias[0], x.flatten(0, 2), self.weight[0])
            return rows.view(*x.shape[:3], -1)
        rows = x.flatten(1, 2).expand(len(self.weight), -1, -1)
        out = torch.baddbmm(self.bias[:, None], rows, self.weight)
        return out.view(-1, *x.shape[1:3], out.shape[-1])

    def normed(self, x: Tensor) -> Tensor:
        """Compute the layer norm of x, (1 or m, n, T, width)."""
        width = x.shape[-1:]
        if len(self.weight) == 1:
            return layer_norm(x, width, self.weight[0], self.bias[0], self.epsilon)
        weight, bias = self.weight[:, None, None], self.bias[:, None, None]
        return torch.addcmul(bias, layer_norm(x, width, eps=self.epsilon), weight)


def _attention(queries: Tensor, seen: Tensor) -> Tensor:
    """Compute causal attention of the last T of S tokens: (members, n, T, heads · width).

    queries: (members, n, heads, T, width). seen: keys and values, (2, members, n, heads, S, width).
    """
    last, length = queries.shape[-2], seen.shape[-2]
    mask = None
    if 1 < last < length:
        square = torch.ones(last, length, dtype=torch.bool, device=queries.device)
        mask = square.tril(length - last)
    keys, values = seen.flatten(1, 2)
    answer = scaled_dot_product_attention(
        queries.flatten(0, 1), keys, values, attn_mask=mask, is_causal=1 < last == length
    )
    return answer.transpose(1, 2).reshape(*queries.shape[:2], last, -1)


def _together(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors: (1, …) where all are equal, else (m, …)."""
    first = tensors[0]
    if all(torch.equal(first, other) for other in tensors[1:]):
        return first.detach()[None]
    return torch.stack(list(tensors)).detach()
