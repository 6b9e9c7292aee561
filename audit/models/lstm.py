"""A one-layer LSTM language model, untrained at first (sizes 200/200 as in arXiv 2108.12944)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from audit.models.cached import Reading


@dataclass(frozen=True)
class Architecture:
    """Sizes and the seed of the initial weights: they determine an untrained network."""

    vocab_size: int
    embedding: int = 200
    hidden: int = 200
    seed: int = 0

    @property
    def parameters(self) -> int:
        """Number of weights: embedding, gates (with one bias each) and head; none are tied."""
        gates = 4 * self.hidden
        read = self.vocab_size * self.embedding + (self.embedding + 1 + self.hidden) * gates
        return read + (self.hidden + 1) * self.vocab_size


@final
@dataclass
class State:
    """Hidden and cell state after n texts, each (n, hidden)."""

    h: Tensor
    c: Tensor

    def rows(self, chosen: slice | Tensor) -> State:
        """Select the states of these texts."""
        return State(self.h[chosen], self.c[chosen])

    def where(self, chosen: Tensor, other: State) -> State:
        """Select this state for the chosen texts, (n,) bool, and the other state for the rest."""
        mask = chosen[:, None]
        return State(torch.where(mask, self.h, other.h), torch.where(mask, self.c, other.c))

    def batch_select_indices(self, rows: Tensor) -> None:
        """Replace the texts by these rows, in this order; a row may be repeated."""
        self.h, self.c = self.h[rows], self.c[rows]


@final
class LSTM(nn.Module):
    """Made of Embedding and Linear layers, which per-example gradients have rules for.

    `input` reads all tokens at once, `recurrent` is called once per token; gates i, f, g, o.
    """

    def __init__(self, config: Architecture) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        self.input = nn.Linear(config.embedding, 4 * config.hidden)
        self.recurrent = nn.Linear(config.hidden, 4 * config.hidden, bias=False)
        self.head = nn.Linear(config.hidden, config.vocab_size)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def forward(
        self,
        input_ids: Tensor,
        past_key_values: State | None = None,
        use_cache: bool = False,
        logits_to_keep: int = 0,
        position_ids: Tensor | None = None,
    ) -> Reading:
        """position_ids: ignored. logits_to_keep: number of last tokens with logits; 0: all."""
        logits, state = self.read(input_ids, past_key_values, logits_to_keep)
        return Reading(logits, state if use_cache else None)

    def read(
        self, input_ids: Tensor, state: State | None = None, keep: int = 0
    ) -> tuple[Tensor, State]:
        """Compute (logits after the last `keep` tokens, or all; the state after the last token)."""
        h, c = self.unroll(input_ids, state)
        return self.head(h[:, -keep:]), State(h[:, -1], c[:, -1])

    def unroll(self, input_ids: Tensor, state: State | None = None) -> tuple[Tensor, Tensor]:
        """Compute h and c after each token of input_ids (n, T), each (n, T, hidden)."""
        start = self.head.weight.new_zeros(len(input_ids), self.config.hidden)
        h, c = (start, start) if state is None else (state.h, state.c)
        states = []
        for read in self.input(self.embedding(input_ids)).unbind(dim=1):
            i, f, g, o = (read + self.recurrent(h)).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append((h, c))
        hs, cs = zip(*states, strict=True)
        return torch.stack(hs, dim=1), torch.stack(cs, dim=1)


def untrained(architecture: Architecture) -> Any:
    """Make a network on the CPU; its weights depend on the architecture's seed alone.

    It is called as a Hugging Face causal model: `model(input_ids=…, past_key_values=…,
    use_cache=…, logits_to_keep=…)` gives `.logits` and `.past_key_values`, a State. No call changes
    a State.
    """
    with torch.device("meta"):  # no weights are drawn from the global generator
        model: Any = LSTM(architecture)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(architecture.seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.uniform_(-0.1, 0.1, generator=generator)
    return model.eval()
