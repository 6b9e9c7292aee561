"""Sums, noises and normalises the answers of M teachers (SeqPATE, arXiv 2210.05281, section 4.2).

The order matters: sum of the teachers' distributions → the student's candidates → noise on those
coordinates → clamped at 0 → normalised. Noise is added once to the *sum* (section 5), not to each
teacher: one N(0, σ²I), with Δ₂ ≤ √2 for a change of one teacher.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Questions:
    """k next-token questions: for each a context and the candidates that an answer ranges over.

    places: (k, 2), the sentence's index and the index ≥ 1 of the token in question.
    rows, tokens: (Σ candidates,), the question's index and the token id of every candidate, one
        question after the other.
    """

    places: Tensor
    rows: Tensor
    tokens: Tensor

    def __len__(self) -> int:
        return len(self.places)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The places as pairs of ints."""
        return [(text, place) for text, place in self.places.tolist()]


@dataclass(frozen=True)
class Answers:
    """probabilities: (Σ candidates,), p_agg of each question, sums to 1 over its candidates."""

    questions: Questions
    probabilities: Tensor


def top_p(log_pmf: Tensor, p: float) -> Tensor:
    """Mark the smallest set of tokens with probability at least p: bool, (n, V).

    Of equally likely tokens those of lower id come first.
    """
    ordered, order = torch.sort(log_pmf, dim=-1, descending=True, stable=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    marked = torch.zeros_like(log_pmf, dtype=torch.bool)
    return marked.scatter_(-1, order, before < p)


def top_k(log_pmf: Tensor, k: int) -> Tensor:
    """Mark the k most likely tokens, at a tie those of lower id: bool, (n, V)."""
    order = torch.sort(log_pmf, dim=-1, descending=True, stable=True).indices[..., :k]
    marked = torch.zeros_like(log_pmf, dtype=torch.bool)
    return marked.scatter_(-1, order, True)


def ranks(log_pmf: Tensor, labels: Tensor) -> Tensor:
    """Compute the rank of each label, 1 for the most likely token: (n,)."""
    own = log_pmf.gather(-1, labels[:, None])
    return 1 + (log_pmf > own).sum(dim=-1)


def aggregated(questions: Questions, noised: Tensor) -> Answers:
    """Compute p_agg ∝ max(0, noised sum), over each question's candidates.

    noised: (Σ candidates,). Where every candidate is clamped to 0, p_agg is uniform.
    """
    clamped = noised.clamp(min=0.0)
    sums = torch.zeros(len(questions), dtype=clamped.dtype).index_add_(0, questions.rows, clamped)
    counts = torch.bincount(questions.rows, minlength=len(questions)).to(clamped.dtype)
    empty = (sums == 0)[questions.rows]
    shares = torch.where(empty, 1.0 / counts[questions.rows], clamped / sums[questions.rows])
    return Answers(questions, shares)
