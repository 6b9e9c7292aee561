"""InvisibleInk's mechanism (arXiv 2507.02974): logits that each reference moves by clipped amounts.

Sampling a token from a softmax is the exponential mechanism, so clipping the logits' changes
bounds the loss. No top-k: a token outside it would have no perplexity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from audit.core.predictor import Access
from defenses.ensembles.mechanism import Mixed
from defenses.ensembles.mechanisms.mixing_weights import divergence


@dataclass(frozen=True)
class ClippedLogits:
    """Softmax of (φ + (1/B)·Σ clip(φ_i − φ, −C, C))/τ, where φ are log-probabilities.

    bound: clip C, nats. alpha: order of `divergence`. parts: divisor B, a public number, which
    need not be the number of references. temperature: τ.
    """

    bound: float
    alpha: float
    parts: int
    temperature: float = 1.0
    access = Access.GENERATE
    reads_public = True

    @property
    def rho(self) -> float:
        """Bound a token's loss for a reference that becomes φ: it is ρ-zCDP, C²/(2B²τ²)."""
        return (self.bound / self.parts / self.temperature) ** 2 / 2

    @property
    def divergence(self) -> float:
        """Bound D_α of one token, nats, for a reference that becomes φ: αρ."""
        return self.alpha * self.rho

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Answer queries of all references and the public model, (n, references + 1, V), nats;
        also computes what each query costs each reference on this data set."""
        moves = self._moves(log_pmfs)
        logits = log_pmfs[:, -1] + moves.sum(dim=1)
        log_h = self._softmax(logits)
        own, without = log_h[:, None], self._softmax(logits[:, None] - moves)
        forth, back = divergence(own, without, self.alpha), divergence(without, own, self.alpha)
        return Mixed(log_h, costs=torch.maximum(forth, back))

    def answer(self, log_pmfs: torch.Tensor) -> torch.Tensor:
        """Compute the log of the answer's pmf, (n, V); the last model is public."""
        return self._softmax(log_pmfs[:, -1] + self._moves(log_pmfs).sum(dim=1))

    def _softmax(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logits / self.temperature, dim=-1)

    def _moves(self, log_pmfs: torch.Tensor) -> torch.Tensor:
        """Compute each reference's clipped share, (n, references, V); 0 where φ excludes."""
        public = log_pmfs[:, -1:]
        change = (log_pmfs[:, :-1] - public).clamp_(-self.bound, self.bound)
        return torch.where(public == -math.inf, 0.0, change).div_(self.parts)
