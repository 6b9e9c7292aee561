"""Units of a causal language model: short texts, tied embeddings, gradients that overlap."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from audit.check.units import Units

VOCABULARY, LENGTH, START, STOP = 64, 12, 0, 1  # tokens


class CausalLM(nn.Module):
    """A tiny GPT-2 with tied embeddings; a record's loss is its mean −log p per token, in nats."""

    def __init__(self) -> None:
        super().__init__()
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=24,
            n_layer=1,
            n_head=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=START,
            eos_token_id=STOP,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.inner = GPT2LMHeadModel(config)

    def forward(self, tokens: Tensor) -> Tensor:
        # GPT-2 would make positions of shape (1, T), whose gradient belongs to no record
        positions = torch.arange(tokens.shape[1] - 1).expand(len(tokens), -1)
        read = {"input_ids": tokens[:, :-1], "position_ids": positions.to(tokens.device)}
        logits = self.inner(**read, use_cache=False).logits
        return cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").mean(dim=1)


@cache
def texts(count: int) -> Units:
    """Make units of one record each: random tokens between a start and a stop token."""
    tokens = np.random.default_rng(0).integers(STOP + 1, VOCABULARY, (count, LENGTH))
    tokens[:, 0], tokens[:, -1] = START, STOP
    return Units("texts", torch.from_numpy(tokens)[:, None], CausalLM, blank=None, apart=False)
