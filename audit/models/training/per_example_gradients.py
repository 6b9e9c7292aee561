"""Clipped per-example gradients from one backward pass, exact for tied weights.

The book-keeping of arXiv 2210.00038: in one forward and one backward pass every layer's input a and
output gradient g are kept; the norm of each example's gradient follows from them, and so does the
clipped sum, without a second backward pass and without any per-example gradient. A weight that
several layers share (GPT-2's embedding and head) needs the cross term of arXiv 2405.18194.

Every use of a matrix W contributes Σ_t l_t ⊗ r_t to an example's gradient, with t over its tokens:
a linear layer with l = g, r = a; an embedding with l = one-hot tokens, r = g. Hence, over all uses
u, v of W and tokens s, t,

    ‖∂L_i/∂W‖² = Σ_{u,v} Σ_{s,t} ⟨l^u_s, l^v_t⟩ ⟨r^u_s, r^v_t⟩.

An example is all that one protected unit has: one record, or a user's several, as several rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm
from transformers.pytorch_utils import Conv1D

from audit.core.errors import UsageError
from audit.models.lstm import State


@dataclass(frozen=True)
class Batch:
    """Examples of `rows` rows each, shorter ones padded with rows of weight 0.

    inputs, targets: (examples · rows, T) token ids. weights: the same shape, what each token's
        −log p counts in its example's loss; 0 at padding.
    state: what a recurrent model has read before, one row each; None: nothing.
    more: further rows of the same examples, of another width, so that less is padded.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    rows: int
    state: State | None = None
    more: tuple[Batch, ...] = ()

    @property
    def examples(self) -> int:
        return self.inputs.shape[0] // self.rows

    def part(self, first: int, last: int) -> Batch:
        """The examples from `first` to before `last`."""
        rows = slice(first * self.rows, last * self.rows)
        state = None if self.state is None else self.state.rows(rows)
        more = tuple(batch.part(first, last) for batch in self.more)
        own = (self.inputs[rows], self.targets[rows], self.weights[rows])
        return Batch(*own, self.rows, state, more)

    @property
    def blocks(self) -> tuple[Batch, ...]:
        """All rows, in batches of one width each."""
        return (replace(self, more=()), *self.more)


@dataclass(frozen=True)
class Clipped:
    """Σ_i g_i · min(1, C/‖g_i‖), one tensor for each trainable parameter, in their order.

    norms: (examples,), ‖g_i‖ over all trainable parameters. losses: (examples,), nats.
    """

    sums: list[Tensor]
    norms: Tensor
    losses: Tensor


def trainable(model: nn.Module) -> list[Tensor]:
    """The parameters that gradients are taken for; a tied one appears once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """(examples,): each example's weighted −log p, a function of that example alone."""
    losses = []
    for block in batch.blocks:
        logits = _logits(model, block).flatten(0, 1)
        nll = cross_entropy(logits, block.targets.flatten(), reduction="none")
        losses.append((nll * block.weights.flatten()).view(batch.examples, -1).sum(dim=1))
    return torch.stack(losses).sum(dim=0)


def _logits(model: nn.Module, batch: Batch) -> Tensor:
    """(rows, T, V)."""
    n, width = batch.inputs.shape
    # GPT-2 would make positions of shape (1, T), whose gradient belongs to no example
    positions = torch.arange(width, device=batch.inputs.device).expand(n, width)
    read = {} if batch.state is None else {"past_key_values": batch.state}
    answer = model(input_ids=batch.inputs, position_ids=positions, use_cache=False, **read)
    logits: Tensor = answer.logits
    return logits


def _loss_and_gradient(logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """`loss`, and its gradient w · (p − one-hot) without the copies that autograd would make."""
    log_p = logits.flatten(0, 1).log_softmax(dim=1)
    targets, weights = batch.targets.reshape(-1, 1), batch.weights.reshape(-1, 1).to(log_p)
    losses = -(log_p.gather(1, targets) * weights).view(batch.examples, -1).sum(dim=1)
    gradient = log_p.exp_().mul_(weights).scatter_add_(1, targets, -weights)
    return losses, gradient.view_as(logits)


def clip_factors(norms: Tensor, max_norm: float) -> Tensor:
    """min(1, C/‖g_i‖); 0 where the norm is no number, so that nothing unbounded is added."""
    factors = (max_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
    return torch.where(norms.isfinite(), factors, torch.zeros_like(factors))


def loop(model: nn.Module, batch: Batch, max_norm: float) -> Clipped:
    """The definition itself: one backward pass an example. The yardstick of the engine."""
    parameters = trainable(model)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    norms, losses = [], []
    for i in range(batch.examples):
        value = loss(model, batch.part(i, i + 1))[0]
        found = torch.autograd.grad(value, parameters, allow_unused=True)
        gradients = [
            torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)
        ]
        # not g.norm(): in float32 it is 3e-3 too small for 4e7 entries
        norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
        factor = clip_factors(norm, max_norm)
        for total, gradient in zip(sums, gradients, strict=True):
            total.add_(gradient * factor)
        norms.append(norm)
        losses.append(value.detach())
    return Clipped(sums, torch.stack(norms), torch.stack(losses))


def check_supported(model: nn.Module) -> None:
    """Raises UsageError where some trainable parameter is in a layer this engine cannot do."""
    rules = _rules()
    for name, module in model.named_modules():
        own = [key for key, p in module.named_parameters(recurse=False) if p.requires_grad]
        odd = getattr(module, "max_norm", None) or getattr(module, "scale_grad_by_freq", False)
        if own and (type(module) not in rules or odd):
            raise UsageError(
                f"this model cannot be trained with per-example gradients: {name}.{own[0]} is in "
                f"a {type(module).__name__}; freeze it, or train LoRA adapters (lora=4)"
            )
        if getattr(module, "gradient_checkpointing", False) and module.training:
            raise UsageError("gradient checkpointing runs layers twice; switch it off")


def clipped_gradients(model: nn.Module, batch: Batch, max_norm: float) -> Clipped:
    """The same as `loop`, from one forward and one backward pass over every row.

    The model's layers are those that `check_supported` lets pass; it is in evaluation mode.
    """
    parameters = trainable(model)
    uses: dict[int, list[Use]] = {id(parameter): [] for parameter in parameters}
    losses = torch.stack([_record(model, parameters, b, uses) for b in batch.blocks]).sum(dim=0)
    with torch.no_grad():
        collected = [_collected(uses[id(parameter)]) for parameter in parameters]
        squares = [_square(found) for found in collected if found]
        total, size = (torch.stack(x).sum(dim=0) for x in zip(*squares, strict=True))
        norms = total.clamp(min=0).sqrt()
        # rounding can only shorten a norm by so much: whoever is clipped, is clipped for sure
        surely = (total.clamp(min=0) + _ROUNDING * torch.finfo(total.dtype).eps * size).sqrt()
        drowned = total < _DROWNED * size
        factors = clip_factors(surely, max_norm).masked_fill(drowned, 0.0)
        sums = [
            _weighted_sum(found, factors, parameter)
            for found, parameter in zip(collected, parameters, strict=True)
        ]
    for i in drowned.nonzero().flatten().tolist():
        alone = loop(model, batch.part(i, i + 1), max_norm)
        norms[i] = alone.norms[0]
        for whole, part in zip(sums, alone.sums, strict=True):
            whole += part
    return Clipped(sums, norms, losses)


_ROUNDING = 16.0  # times the machine epsilon, of the sum of all terms' sizes
_DROWNED = 1e-3  # where terms cancel to less than this of their sizes, the example is done alone


@dataclass(frozen=True)
class OneHot:
    """Rows of an identity matrix, by their index: (examples, tokens)."""

    index: Tensor


@dataclass(frozen=True)
class Outer:
    """A use of a matrix: Σ_t left_t ⊗ right_t; (examples, tokens, p) and (examples, tokens, q)."""

    left: Tensor | OneHot
    right: Tensor


@dataclass(frozen=True)
class Whole:
    """A use of a small parameter: its gradient itself, (examples, p)."""

    gradient: Tensor


Use = Outer | Whole


def _square(uses: Sequence[Use]) -> tuple[Tensor, Tensor]:
    """‖Σ_u G^u_i‖² of one parameter, and the sum of the sizes of what was added up: (examples,)
    each. Where the first is much smaller than the second, it has drowned in rounding errors."""
    totals, sizes = [], []
    for i, one in enumerate(uses):
        for other in uses[: i + 1]:
            total, size = _product(one, other)
            times = 1.0 if one is other else 2.0
            totals.append(times * total)
            sizes.append(times * size)
    return torch.stack(totals).sum(dim=0), torch.stack(sizes).sum(dim=0)


def _product(one: Use, other: Use) -> tuple[Tensor, Tensor]:
    """⟨G^u_i, G^v_i⟩ of two uses of one parameter, and the sum of its terms' sizes."""
    if isinstance(one, Whole) and isinstance(other, Whole):
        terms = one.gradient * other.gradient
        return terms.sum(dim=1), terms.abs().sum(dim=1)
    assert isinstance(one, Outer) and isinstance(other, Outer)
    if one is other and not isinstance(one.left, OneHot) and _cheaper_whole(one.left, one.right):
        whole = torch.bmm(one.left.mT, one.right).square_().sum(dim=(1, 2))
        return whole, whole
    terms = _inner(one.left, other.left) * torch.bmm(one.right, other.right.mT)
    return terms.sum(dim=(1, 2)), terms.abs_().sum(dim=(1, 2))


def _cheaper_whole(left: Tensor, right: Tensor) -> bool:
    """Whether G_i itself costs less than the two Gram matrices of its factors."""
    tokens, p, q = left.shape[1], left.shape[2], right.shape[2]
    return p * q < tokens * (p + q)


def _inner(left: Tensor | OneHot, other: Tensor | OneHot) -> Tensor:
    """⟨l_s, l'_t⟩ for all tokens s, t of an example: (examples, s, t)."""
    if isinstance(left, OneHot) and isinstance(other, OneHot):
        return (left.index[:, :, None] == other.index[:, None, :]).to(torch.float32)
    if isinstance(left, OneHot):
        assert not isinstance(other, OneHot)
        return _inner(other, left).mT
    if isinstance(other, OneHot):
        places = other.index[:, None, :].expand(-1, left.shape[1], -1)
        return left.gather(2, places)
    return torch.bmm(left, other.mT)


def _weighted_sum(uses: Sequence[Use], factors: Tensor, parameter: Tensor) -> Tensor:
    """Σ_i c_i G_i of one parameter, in its shape."""
    total = torch.zeros_like(parameter)
    for use in uses:
        if isinstance(use, Whole):
            total += (factors @ use.gradient).view_as(total)
        elif isinstance(use.left, OneHot):
            scaled = use.right * factors[:, None, None]
            total.index_add_(0, use.left.index.flatten(), scaled.flatten(0, 1))
        else:
            left, right = use.left, use.right  # the smaller of the two is scaled
            if left.shape[2] < right.shape[2]:
                left = left * factors[:, None, None]
            else:
                right = right * factors[:, None, None]
            total.addmm_(left.flatten(0, 1).T, right.flatten(0, 1))
    return total


def _collected(uses: Sequence[Use]) -> list[Use]:
    """Uses by one layer at several times, such as a recurrent one, as one use over all tokens."""
    outers = [u for u in uses if isinstance(u, Outer) and not isinstance(u.left, OneHot)]
    if len(outers) < 2 or len({u.right.shape[2] for u in outers}) > 1:
        return list(uses)
    rest = [u for u in uses if not any(u is outer for outer in outers)]
    left = torch.cat([u.left for u in outers if not isinstance(u.left, OneHot)], dim=1)
    return [*rest, Outer(left, torch.cat([u.right for u in outers], dim=1))]


def _record(
    model: nn.Module, parameters: Sequence[Tensor], batch: Batch, uses: dict[int, list[Use]]
) -> Tensor:
    """Losses of one width's rows, (examples,); the uses of every parameter are added to its own."""
    with _recorded(model, parameters, batch, uses):
        logits = _logits(model, batch)
        losses, gradient = _loss_and_gradient(logits.detach(), batch)
        logits.backward(gradient)  # type: ignore[no-untyped-call]
    return losses


@contextmanager
def _recorded(
    model: nn.Module, parameters: Sequence[Tensor], batch: Batch, uses: dict[int, list[Use]]
) -> Iterator[None]:
    """Hooks every trainable layer, which adds to the uses of its parameters, by id.

    Meanwhile no parameter asks for a gradient: the backward pass only carries g from layer to
    layer, and the time of ordinary weight gradients is spent on the clipped sum instead.
    """
    rules = _rules()
    layers = [m for m in model.modules() if any(p.requires_grad for p in m.parameters(False))]
    handles = [m.register_forward_hook(_keeper(rules[type(m)], uses, batch)) for m in layers]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for parameter in parameters:
            parameter.requires_grad_(True)


Rule = Callable[[Any, "Tensor", "Tensor"], "dict[str, Use]"]


def _keeper(rule: Rule, uses: dict[int, list[Use]], batch: Batch) -> Any:
    """A forward hook that keeps a layer's input and waits for the gradient at its output."""

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        a = inputs[0].detach()
        if a.shape[0] != batch.inputs.shape[0]:
            raise UsageError(
                f"a {type(module).__name__} reads {tuple(a.shape)} where the batch has "
                f"{batch.inputs.shape[0]} rows: its gradient belongs to no example"
            )
        if not output.requires_grad:
            output.requires_grad_(True)  # the first trainable layer: nothing below asks

        def arrived(g: Tensor) -> None:
            for name, use in rule(module, _tokens(a, batch), _tokens(g, batch)).items():
                parameter = getattr(module, name)
                if parameter is not None and id(parameter) in uses:
                    uses[id(parameter)].append(use)

        output.register_hook(arrived)  # type: ignore[no-untyped-call]

    return keep


def _tokens(x: Tensor, batch: Batch) -> Tensor:
    """(rows, T, …) as (examples, tokens, …): an example's rows stand one after the other."""
    if x.dtype == torch.long:
        return x.reshape(batch.examples, -1)
    wide = x if x.dim() == 3 else x[:, None]
    return wide.reshape(batch.examples, -1, wide.shape[-1])


def _rules() -> dict[type, Rule]:
    """What each kind of layer contributes, from its input a and its output's gradient g."""
    return {
        nn.Linear: lambda module, a, g: {"weight": Outer(g, a), "bias": Whole(g.sum(dim=1))},
        Conv1D: lambda module, a, g: {"weight": Outer(a, g), "bias": Whole(g.sum(dim=1))},
        nn.Embedding: _embedding,
        nn.LayerNorm: _layer_norm,
    }


def _embedding(module: nn.Embedding, a: Tensor, g: Tensor) -> dict[str, Use]:
    if module.padding_idx is not None:
        g = g * (a != module.padding_idx)[:, :, None]
    return {"weight": Outer(OneHot(a), g)}


def _layer_norm(module: nn.LayerNorm, a: Tensor, g: Tensor) -> dict[str, Use]:
    normal = layer_norm(a, module.normalized_shape, eps=module.eps)
    return {"weight": Whole((g * normal).sum(dim=1)), "bias": Whole(g.sum(dim=1))}


def worst_difference(mine: Clipped, theirs: Clipped) -> float:
    """The largest relative difference in any norm and in the sum as a whole, for self-checks."""
    norms = ((mine.norms - theirs.norms).abs() / theirs.norms.clamp(min=1e-12)).max()
    gap = torch.stack([(a - b).norm() for a, b in zip(mine.sums, theirs.sums, strict=True)]).norm()
    size = torch.stack([b.norm() for b in theirs.sums]).norm()
    both = [float(norms), float(gap / size.clamp(min=1e-12))]
    return max(both) if all(map(math.isfinite, both)) else math.inf
