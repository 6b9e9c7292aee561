"""What an LSTM remembers of private tokens, made safe to pass on: clipped, noised, cut off."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from audit.models.lstm import State
from audit.models.training.dp_sgd import Noise
from audit.models.training.per_example_gradients import clip_factors


def noised(state: State, noise: Noise, stream: np.random.Generator, kept: Tensor) -> State:
    """h and c, each row clipped to C and given N(0, σ²C²), without a way back for gradients.

    kept: (n,), bool: the rows that are released; the others become the zero state.
    """
    return State(_released(state.h, noise, stream, kept), _released(state.c, noise, stream, kept))


def _released(x: Tensor, noise: Noise, stream: np.random.Generator, kept: Tensor) -> Tensor:
    x = x.detach()
    clipped = x * clip_factors(x.norm(dim=1), noise.max_norm)[:, None]
    released = clipped + noise.drawn(x, stream)
    return torch.where(kept[:, None], released, torch.zeros_like(x))
