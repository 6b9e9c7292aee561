"""Section 4.2 of SeqPATE (arXiv 2210.05281): what M teachers say, summed, noised and normalised.

The order is the algorithm: sum of the teachers' distributions → the student's candidates → noise on
those coordinates → clamped at 0 → normalised. The noise goes on the *sum* (section 5), not into it:
one N(0, σ²I) with Δ₂ ≤ √2 for a change of one teacher.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Questions:
    """k next-token questions: a context each, and the candidates an answer is given over.

    places: (k, 2) which sentence, and the token of it that is asked for, at least 1.
    rows, tokens: (Σ candidates,) the candidates of all questions, one question after the other:
        the question's number, and the token's id.
    """

    places: Tensor
    rows: Tensor
    tokens: Tensor

    def __len__(self) -> int:
        return len(self.places)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The places as plain pairs."""
        return [(text, place) for text, place in self.places.tolist()]


@dataclass(frozen=True)
class Answers:
    """p_agg of each question, shape (Σ candidates,): over its own candidates, summing to 1."""

    questions: Questions
    probabilities: Tensor


def top_p(log_pmf: Tensor, p: float) -> Tensor:
    """The smallest set of tokens that holds at least p: bool, (n, V).

    Of equally likely tokens those of lower id come first.
    """
    ordered, order = torch.sort(log_pmf, dim=-1, descending=True, stable=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    kept = torch.zeros_like(log_pmf, dtype=torch.bool)
    return kept.scatter_(-1, order, before < p)


def top_k(log_pmf: Tensor, k: int) -> Tensor:
    """The k most likely tokens: bool, (n, V); of equally likely ones those of lower id."""
    order = torch.sort(log_pmf, dim=-1, descending=True, stable=True).indices[..., :k]
    kept = torch.zeros_like(log_pmf, dtype=torch.bool)
    return kept.scatter_(-1, order, True)


def ranks(log_pmf: Tensor, labels: Tensor) -> Tensor:
    """The rank of each label, 1 for the most likely token: (n,)."""
    own = log_pmf.gather(-1, labels[:, None])
    return 1 + (log_pmf > own).sum(dim=-1)


def aggregated(questions: Questions, noised: Tensor) -> Answers:
    """p_agg ∝ max(0, noised sum), over each question's candidates.

    noised: (Σ candidates,). Where everything is clamped the answer is uniform: it says nothing,
    and is still an answer.
    """
    kept = noised.clamp(min=0.0)
    sums = torch.zeros(len(questions), dtype=kept.dtype).index_add_(0, questions.rows, kept)
    counts = torch.bincount(questions.rows, minlength=len(questions)).to(kept.dtype)
    silent = (sums == 0)[questions.rows]
    shares = torch.where(silent, 1.0 / counts[questions.rows], kept / sums[questions.rows])
    return Answers(questions, shares)
