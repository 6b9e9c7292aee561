"""Compute weighted losses, and their gradients, for some positions of a batch at a time.

The gradient of Σ w·(−log p) at the logits is w·(p − one-hot), which is known with the loss. So the
logits of a few positions are made, turned into losses and gradients, and dropped.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from audit.models.head import Head


def loss_and_gradient(logits: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Compute w·(−log p) and its gradient w·(p − one-hot), without the copies that autograd makes.

    logits: (n, T, V). targets, weights: (n, T). Returns losses, (n, T), and a gradient, (n, T, V).
    """
    log_p = logits.flatten(0, 1).log_softmax(dim=1)
    targets, flat = targets.reshape(-1, 1), weights.reshape(-1, 1).to(log_p)
    losses = -(log_p.gather(1, targets) * flat).view(weights.shape)
    gradient = log_p.exp_().mul_(flat).scatter_add_(1, targets, -flat)
    return losses, gradient.view_as(logits)


def in_parts(
    head: Head, vectors: Tensor, targets: Tensor, weights: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Compute losses, (n,), and the gradients of their sum, for some positions at a time.

    vectors: (n, T, d). targets, weights: (n, T).
    Returns the gradients with respect to the vectors and to each of `head.parameters`.
    """
    parameters = head.parameters
    losses, moves = _zeros(weights, vectors), torch.zeros_like(vectors)
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    with head.ready(), torch.enable_grad():
        for places in _weighted(head, weights):
            some = vectors.detach()[places].requires_grad_()
            logits = head.logits(some)
            exact = logits.detach() if logits.dtype == torch.float64 else logits.detach().float()
            lost, outer = loss_and_gradient(exact, targets[places], weights[places])
            losses[places] = lost
            of_vectors, *of_parameters = torch.autograd.grad(
                logits, [some, *parameters], outer.to(logits.dtype)
            )
            moves[places] = of_vectors
            for total, part in zip(sums, of_parameters, strict=True):
                total += part
    return losses.sum(dim=1), [moves, *sums]


def _weighted(head: Head, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
    """List the positions that have a weight, as many at a time as the head takes.

    weights: (n, T). Returns indices (rows, columns) of shape (1, some). By rows they have shape
    (n, some), and a row with fewer lists some of its positions of weight 0 after them.
    """
    if not head.by_rows:
        parts = torch.split(weights.nonzero(), head.at_once)
        return [(part[None, :, 0], part[None, :, 1]) for part in parts if len(part)]
    most = int((weights != 0).sum(dim=1).max())
    places = (weights == 0).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]
    rows = torch.arange(len(weights), device=weights.device)[:, None]
    parts = torch.split(places, max(1, head.at_once // len(weights)), dim=1)
    return [(rows.expand_as(part), part) for part in parts if part.numel()]


def _zeros(weights: Tensor, vectors: Tensor) -> Tensor:
    """Make a loss of 0 for each position, in float32 at least."""
    exact = torch.promote_types(vectors.dtype, torch.float32)
    return torch.zeros(weights.shape, dtype=exact, device=vectors.device)


class _Known(torch.autograd.Function):
    """Losses whose gradients are computed already."""

    @staticmethod
    def forward(
        ctx: Any, losses: Tensor, gradients: list[Tensor], vectors: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.gradients = gradients
        return losses.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = outer
        moves, *sums = ctx.gradients
        if sums and not bool((g == g[0]).all()):
            raise RuntimeError("losses of several rows with weights of their own need whole logits")
        return None, None, moves * g[:, None, None].to(moves), *(g[0] * total for total in sums)


def head_loss(head: Head, vectors: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Compute Σ w·(−log p) of each row, nats, (n,), to which autograd can be applied.

    Where the head is trained, the gradient at all rows has to be the same.
    """
    if not torch.is_grad_enabled():
        return _without_gradients(head, vectors, targets, weights)
    losses, gradients = in_parts(head, vectors, targets, weights)
    known: Tensor = _Known.apply(losses, gradients, vectors, *head.parameters)  # type: ignore[no-untyped-call]
    return known


def _without_gradients(head: Head, vectors: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    losses = _zeros(weights, vectors)
    with head.ready():
        for places in _weighted(head, weights):
            logits = head.logits(vectors[places])
            log_p = logits.log_softmax(
                dim=2, dtype=torch.promote_types(logits.dtype, torch.float32)
            )
            chosen = log_p.gather(2, targets[places][:, :, None])[:, :, 0]
            losses[places] = -chosen * weights[places]
    return losses.sum(dim=1)
