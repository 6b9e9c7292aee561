"""Norms that drown in rounding errors: parts of order one whose sum is tiny.

At a stationary point of one user's contradicting records the terms of ‖g‖² cancel, and in float32
their sum may come out as 0. Unnoticed, that user's gradient would enter the sum unclipped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from audit.models.training import per_example_gradients
from audit.models.training.per_example_gradients import Batch, clipped_gradients, loop, loss

CLIP = 1e-5


def batches(seed: int) -> tuple[Batch, Batch]:
    """One user with two records of the same words that go on differently, in both precisions."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randint(1, 21, (1, 4), generator=draws).repeat(2, 1)
    targets = torch.randint(1, 21, (2, 4), generator=draws)
    weights = torch.full(inputs.shape, 1 / inputs.numel())
    return Batch(inputs, targets, weights, 2), Batch(inputs, targets, weights.double(), 2)


@cache
def stationary(seed: int) -> tuple[Any, Batch]:
    """A tied GPT-2 at the least loss on that user."""
    from transformers import GPT2Config, GPT2LMHeadModel

    single, double = batches(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=21,
            n_positions=32,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = GPT2LMHeadModel(config).eval().double()
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=60,
        tolerance_grad=1e-14,
        tolerance_change=1e-18,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(model, double).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return model.float().requires_grad_(True), single


SEEDS = range(12)  # which of them cancel to 0 in float32 depends on the processor


def contribution(seed: int) -> float:
    """‖clipped contribution‖ / C of that user."""
    model, batch = stationary(seed)
    sums = clipped_gradients(model, batch, CLIP).sums
    return float(torch.stack([s.double().norm() for s in sums]).norm()) / CLIP


def test_no_example_adds_more_than_the_clipping_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(contribution, SEEDS)) <= 1 + 1e-3
    monkeypatch.setattr(per_example_gradients, "_CANCELLED", -1.0)  # put back: nobody is done alone
    monkeypatch.setattr(per_example_gradients, "_ROUNDING", 0.0)
    assert max(map(contribution, SEEDS)) > 1.5


def test_lone_examples_have_the_loops_norm() -> None:
    model, odd = stationary(3)
    fresh, _ = batches(9)
    both = Batch(
        torch.cat([odd.inputs, fresh.inputs]),
        torch.cat([odd.targets, fresh.targets]),
        torch.cat([odd.weights, fresh.weights]),
        2,
    )
    mine, theirs = clipped_gradients(model, both, CLIP), loop(model, both, CLIP)
    assert torch.allclose(mine.norms, theirs.norms, rtol=1e-4)
    for a, b in zip(mine.sums, theirs.sums, strict=True):
        assert torch.allclose(a, b, atol=1e-3 * CLIP)
