"""Activation checkpointing (arXiv 1604.06174): blocks forget what they computed, and do it again.

A block keeps its input alone until the backward pass comes to it. Then it runs once more, with the
same numbers for dropout, so losses and gradients are the same to the last bit; only memory and time
differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from audit.core.errors import UsageError
from audit.models.layers import blocks


@contextmanager
def recomputed(model: nn.Module, wanted: bool) -> Iterator[None]:
    """Make every block of a transformer compute twice inside the context, if that is wanted.

    Raises UsageError where a model has no blocks.
    """
    chosen = blocks(model) if wanted else ()
    if wanted and not chosen:
        raise UsageError(
            "training.checkpoint_activations needs a model of several blocks; leave it out"
        )
    for block in chosen:
        block.forward = partial(_twice, block.forward)
    try:
        yield
    finally:
        for block in chosen:
            del block.forward  # the method of its class again


def _twice(forward: Any, *args: Any, **named: Any) -> Any:
    return checkpoint(forward, *args, use_reentrant=False, **named)
