"""Clip the gradient of every example, from one forward and one backward pass for all of them.

Book-keeping of arXiv 2210.00038: each layer's input and output gradient are recorded. The norm of
every example's gradient and the clipped sum follow from them (gradient_factors.py), without a
second backward pass and without any example's gradient.

An example is all data of one protected unit: one record, or all records of a user in several rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.pytorch_utils import Conv1D

from audit.core.counts import Piece
from audit.core.errors import UsageError
from audit.models.head import Head, head_for
from audit.models.lstm import State
from audit.models.training.gradient_factors import Use, merged, squared_norm, weighted_sum
from audit.models.training.head_loss import head_loss, in_parts, loss_and_gradient
from audit.models.training.layer_rules import Rule, has_rule, rule_of

_ROUNDING = 16.0  # times the machine epsilon, of the sum of all terms' absolute values
_CANCELLED = 1e-3  # an example whose terms cancel to less than this share is clipped by `loop`


@dataclass(frozen=True)
class Block:
    """Rows of one width, `rows` of each example; one with fewer is padded with rows of weight 0.

    inputs, targets: (examples · rows, T) token ids.
    weights: (examples · rows, T), the weight of each token's −log p in its example's loss; 0 at
        padding.
    state: the state in which a recurrent model starts each row; None: the zero state.
    own: tokens of each example in these rows, without padding; (): none is padded.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    rows: int
    state: State | None = None
    own: tuple[int, ...] = ()

    @property
    def examples(self) -> int:
        return self.inputs.shape[0] // self.rows

    def part(self, first: int, last: int) -> Block:
        """Return the examples from `first` to before `last`."""
        rows = slice(first * self.rows, last * self.rows)
        state = None if self.state is None else self.state.rows(rows)
        own = (self.inputs[rows], self.targets[rows], self.weights[rows])
        return Block(*own, self.rows, state, self.own[first:last])

    def row(self, i: int, width: int) -> Block:
        """Return the first `width` tokens of a row, as an example of one row."""
        at = slice(i, i + 1)
        state = None if self.state is None else self.state.rows(at)
        own = (self.inputs[at, :width], self.targets[at, :width], self.weights[at, :width])
        return Block(*own, 1, state)

    def weighted_rows(self) -> Iterator[Block]:
        """Yield each row by itself up to its last token with a weight; those without one not."""
        for i, weights in enumerate(self.weights):
            if len(weighted := weights.nonzero()):
                yield self.row(i, 1 + int(weighted[-1]))


@dataclass(frozen=True)
class Batch:
    """Examples, whose rows are in blocks of several widths, to save padding.

    chunked: one example that is too large to be read at once; its blocks are read one by one.
    pieces: what each example holds of the texts of a training, in all rows; (): of none.
    """

    blocks: tuple[Block, ...]
    chunked: bool = False
    pieces: tuple[tuple[Piece, ...], ...] = ()

    @property
    def examples(self) -> int:
        return self.blocks[0].examples

    def alone(self, index: int) -> Batch:
        """Make one example without the others: each row by itself, and without padding."""
        own = self.part(index, index + 1).blocks
        rows = [row for block in own for row in block.weighted_rows()]
        return Batch(tuple(rows) or (own[0].row(0, 1),))

    def part(self, first: int, last: int) -> Batch:
        """Return the examples from `first` to before `last`."""
        return Batch(tuple(block.part(first, last) for block in self.blocks), self.chunked)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each example in all blocks, without padding; []: not known of a block."""
        every = [block.own for block in self.blocks]
        return [sum(own) for own in zip(*every, strict=True)] if all(every) else []


@dataclass(frozen=True)
class Clipped:
    """Σ_i g_i · min(1, C/‖g_i‖), one tensor for each trainable parameter, in their order.

    norms: (examples,), ‖g_i‖ over all trainable parameters. losses: (examples,), nats.
    """

    sums: list[Tensor]
    norms: Tensor
    losses: Tensor

    def contributed(self, max_norm: float) -> list[bool]:
        """Return which examples add anything to the sums once they are clipped to `max_norm`."""
        moves = torch.stack([part.any() for part in self.sums]).any()
        contributed = (self.norms.clamp(max=max_norm) > 0) & moves
        answer: list[bool] = contributed.cpu().tolist()  # the host waits for the device once
        return answer


def trainable(model: nn.Module) -> list[Tensor]:
    """List the parameters that require a gradient; a tied one appears once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def loss(model: nn.Module, block: Block) -> Tensor:
    """Compute each example's weighted −log p, nats, (examples,), from that example alone."""
    head = head_for(model, block.inputs.numel())
    if head is not None:
        vectors = head.vectors(**_read(block))
        lost = head_loss(head, vectors, block.targets, block.weights)
    else:
        logits = model(**_read(block)).logits.flatten(0, 1)
        nll = cross_entropy(logits, block.targets.flatten(), reduction="none")
        lost = nll * block.weights.flatten()
    return lost.view(block.examples, -1).sum(dim=1)


def _read(block: Block) -> dict[str, Any]:
    """Make the arguments with which a model reads each row of a block."""
    n, width = block.inputs.shape
    # GPT-2 would make positions of shape (1, T), whose gradient belongs to no example
    positions = torch.arange(width, device=block.inputs.device).expand(n, width)
    state = {} if block.state is None else {"past_key_values": block.state}
    return {"input_ids": block.inputs, "position_ids": positions, "use_cache": False, **state}


def _opened(
    model: nn.Module, block: Block, head: Head | None
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Compute losses, (examples,), and the tensors with their gradients at which a backward pass of
    their sum begins.

    head: of a large vocabulary: the pass begins before it, and its gradients are made on the way.
    """
    if head is None:
        logits = model(**_read(block)).logits
        lost, gradient = loss_and_gradient(logits.detach(), block.targets, block.weights)
        begin = [(logits, gradient)]
    else:
        vectors = head.vectors(**_read(block))
        parameters = head.parameters
        lost, gradients = in_parts(head, vectors, block.targets, block.weights)
        begin = list(zip([vectors, *parameters], gradients, strict=True))
    begin = [(tensor, gradient) for tensor, gradient in begin if tensor.requires_grad]
    return lost.view(block.examples, -1).sum(dim=1), begin


def clip_factors(norms: Tensor, max_norm: float) -> Tensor:
    """Compute min(1, C/‖g_i‖); 0 where the norm is not finite: nothing unbounded is added."""
    factors = (max_norm / norms.clamp(min=1e-30)).clamp(max=1.0)
    return torch.where(norms.isfinite(), factors, torch.zeros_like(factors))


def loop(model: nn.Module, batch: Batch, max_norm: float) -> Clipped:
    """Clip by the definition, one example after the other: the reference for the engine.

    Every row is read alone and without padding, so no other example can have any influence.
    """
    sums = [torch.zeros_like(parameter) for parameter in trainable(model)]
    norms, losses = [], []
    for i in range(batch.examples):
        alone = _of_one_example(model, batch.alone(i), max_norm)
        for total, part in zip(sums, alone.sums, strict=True):
            total += part
        norms.append(alone.norms)
        losses.append(alone.losses)
    return Clipped(sums, torch.cat(norms), torch.cat(losses))


def _of_one_example(model: nn.Module, batch: Batch, max_norm: float) -> Clipped:
    """Clip the gradient of one example, which is first added up over the batch's blocks.

    Only one block is in memory at a time, and beside it the gradient so far. Clipping comes last:
    clipping each block would bound nothing of the example, and bias its direction.
    """
    parameters = trainable(model)
    gradients = [torch.zeros_like(parameter) for parameter in parameters]
    losses = []
    for block in batch.blocks:
        value = loss(model, block)
        parts = torch.autograd.grad(value.sum(), parameters, allow_unused=True)
        for gradient, part in zip(gradients, parts, strict=True):
            if part is not None:
                gradient += part
        losses.append(value.detach())
    # not g.norm(): in float32 it is 3e-3 too small for 4e7 entries
    norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    factor = clip_factors(norm, max_norm)
    clipped = [gradient.mul_(factor) for gradient in gradients]
    return Clipped(clipped, norm[None], torch.stack(losses).sum(dim=0))


def check_supported(model: nn.Module) -> None:
    """Raise UsageError where a trainable parameter is in a layer without a rule."""
    for name, module in model.named_modules():
        own = [key for key, p in module.named_parameters(recurse=False) if p.requires_grad]
        if own and not has_rule(module):
            raise UsageError(
                f"this model cannot be trained with per-example gradients: {name}.{own[0]} is in "
                f"a {type(module).__name__}; {_instead(model)}"
            )
        if getattr(module, "gradient_checkpointing", False) and module.training:
            raise UsageError("gradient checkpointing runs layers twice; switch it off")


def _instead(model: nn.Module) -> str:
    """Name what can be trained instead: adapters, or others, where there is a layer for them."""
    if any(".lora_" in name for name, _ in model.named_parameters()):
        return "give --lora other targets: linear layers, or all-linear"
    linear = any(isinstance(module, nn.Linear | Conv1D) for module in model.modules())
    return "freeze it, or train LoRA adapters (lora=4)" if linear else "use another model"


def clipped_gradients(model: nn.Module, batch: Batch, max_norm: float) -> Clipped:
    """Compute what `loop` does, from one forward and one backward pass over every row.

    A chunked batch takes one such pass for each block.
    model: in evaluation mode, and without an error from `check_supported`.
    """
    if batch.chunked:
        return _of_one_example(model, batch, max_norm)
    parameters = trainable(model)
    uses: dict[int, list[Use]] = {id(parameter): [] for parameter in parameters}
    losses = torch.stack([_record(model, parameters, b, uses) for b in batch.blocks]).sum(dim=0)
    with torch.no_grad():
        used, own = [merged(uses[id(parameter)]) for parameter in parameters], batch.lengths
        squares = [squared_norm(of_one, own) for of_one in used if of_one]
        total, size = (torch.stack(x).sum(dim=0) for x in zip(*squares, strict=True))
        norms = total.clamp(min=0).sqrt()
        # an upper bound on the norm despite rounding, so that no example exceeds the clipping norm
        at_most = (total.clamp(min=0) + _ROUNDING * torch.finfo(total.dtype).eps * size).sqrt()
        cancelled = total < _CANCELLED * size
        factors = clip_factors(at_most, max_norm).masked_fill(cancelled, 0.0)
        sums = [
            weighted_sum(of_one, factors, parameter)
            for of_one, parameter in zip(used, parameters, strict=True)
        ]
    for i in cancelled.nonzero().flatten().tolist():
        alone = loop(model, batch.part(i, i + 1), max_norm)
        norms[i] = alone.norms[0]
        for whole, part in zip(sums, alone.sums, strict=True):
            whole += part
    return Clipped(sums, norms, losses)


def _record(
    model: nn.Module, parameters: Sequence[Tensor], block: Block, uses: dict[int, list[Use]]
) -> Tensor:
    """Compute the losses of rows of one width, (examples,), and records all parameters' uses."""
    head = head_for(model, block.inputs.numel())  # tried before the hooks are there
    with _recorded(model, parameters, block, uses):
        losses, begin = _opened(model, block, head)
        for tensor, gradient in begin:  # none where a head alone is trained: it is done
            tensor.backward(gradient)  # type: ignore[no-untyped-call]
    return losses


@contextmanager
def _recorded(
    model: nn.Module, parameters: Sequence[Tensor], block: Block, uses: dict[int, list[Use]]
) -> Iterator[None]:
    """Register hooks on every trainable layer, which add to `uses` of its parameters, by id.

    Inside, no parameter requires a gradient: the backward pass only carries g from layer to layer,
    and no time goes into ordinary weight gradients.
    """
    layers = [m for m in model.modules() if any(p.requires_grad for p in m.parameters(False))]
    handles = [
        m.register_forward_hook(_recorder(rule_of(m), uses, block), with_kwargs=True)
        for m in layers
    ]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for parameter in parameters:
            parameter.requires_grad_(True)


def _recorder(rule: Rule, uses: dict[int, list[Use]], block: Block) -> Any:
    """Make a forward hook that stores a layer's input until the gradient at its output arrives."""

    def record(
        module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Tensor
    ) -> Tensor:
        a = rule.reads(module, args, named).detach()
        rows, width = block.inputs.shape
        if a.shape[0] != rows and (a.dim() != 2 or a.shape[0] != rows * width):
            raise UsageError(
                f"a {type(module).__name__} reads {tuple(a.shape)} where the batch has "
                f"{rows} rows: its gradient belongs to no example"
            )
        first = not output.requires_grad  # of the trainable layers: nothing below requires one
        if first:
            output.requires_grad_(True)
        kept = _kept(a)

        def arrived(g: Tensor) -> None:
            (a,) = kept.grad_fn.saved_tensors
            for name, use in rule.uses(module, _tokens(a, block), _tokens(g, block)).items():
                parameter = getattr(module, name, None)
                if parameter is not None and id(parameter) in uses:
                    uses[id(parameter)].append(use)

        output.register_hook(arrived)  # type: ignore[no-untyped-call]
        return output.clone() if first else output  # a leaf may not be changed in place, as CTRL's

    return record


class _Keep(torch.autograd.Function):
    """Keeps a tensor as autograd keeps what it needs: a block that computes twice forgets it."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return one.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        return None, None


def _kept(a: Tensor) -> Any:
    """Keep a layer's input once, in `saved_tensors` of how the returned tensor was made.

    That tensor must live as long: torch below 2.12 frees what was saved for it together with it.
    """
    with torch.enable_grad():
        one = torch.zeros((), requires_grad=True)
        return _Keep.apply(one, a)  # type: ignore[no-untyped-call]


def _tokens(x: Tensor, block: Block) -> Tensor:
    """Reshape (rows, T, …) or (rows · T, …) to (examples, tokens, …): rows are consecutive."""
    if x.dtype == torch.long:
        return x.reshape(block.examples, -1)
    wide = x if x.dim() == 3 else x[:, None]
    return wide.reshape(block.examples, -1, wide.shape[-1])


def worst_difference(mine: Clipped, theirs: Clipped) -> float:
    """Compute the largest relative difference: of any norm, and of the sum as a whole."""
    norms = ((mine.norms - theirs.norms).abs() / theirs.norms.clamp(min=1e-12)).max()
    gap = torch.stack([(a - b).norm() for a, b in zip(mine.sums, theirs.sums, strict=True)]).norm()
    size = torch.stack([b.norm() for b in theirs.sums]).norm()
    both = [float(norms), float(gap / size.clamp(min=1e-12))]
    return max(both) if all(map(math.isfinite, both)) else math.inf
