"""Read the gradient of a text's loss as a few numbers that keep lengths and angles.

Every weight has one of SIZE places and a sign, both drawn once: a count sketch (Charikar et al.
2002). The scalar product of two sketches is that of the gradients in expectation, with a standard
deviation of at most √2·‖g‖·‖h‖/√SIZE.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from audit.core.predictor import Tokenizer, record_tokens
from audit.models.training.fine_tuning import next_token_loss

SIZE = 1024


class Sketch:
    """Sketches gradients of one model at its weights; all sketches share places and signs.

    It takes 2 bytes a weight besides a gradient. max_length: tokens that are read of a text.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, max_length: int, seed: int = 0) -> None:
        self._model, self._tokenizer, self._max_length = model, tokenizer, max_length
        self._weights = list(model.parameters())
        draws = torch.Generator().manual_seed(seed)
        # places from 0 on, those of weights with a minus after them
        self._places = [
            torch.randint(2 * SIZE, (w.numel(),), generator=draws, dtype=torch.int16)
            for w in self._weights
        ]

    def __call__(self, text: str) -> np.ndarray:
        """Compute the sketch of the mean loss a token of a text's beginning, (SIZE,)."""
        tokens = record_tokens(self._tokenizer, text)[: self._max_length + 1]
        loss = next_token_loss(self._model, [tokens])
        parts = torch.autograd.grad(loss, self._weights, allow_unused=True)
        both = torch.zeros(2 * SIZE)
        for places, part in zip(self._places, parts, strict=True):
            if part is not None:
                both.index_add_(0, places.int(), part.flatten().float())
        return (both[:SIZE] - both[SIZE:]).double().numpy()
