"""Computations of a mechanism on an ensemble's answers: the answer of a query, and its costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from audit.core.law import Law
from audit.core.predictor import Access


@dataclass(frozen=True)
class Mixed:
    """Answers n queries, before anything is charged or released.

    log_h: shape (n, V), nats: the distribution from which an answer is sampled.
    weights: shape (n, k): the weight of each part in the answer, such as λ_i; None for no weights.
    costs: shape (n, k), nats: D_α between the answer and the answer on neighbouring data, the
        larger direction, for each part of this data set; None where only a worst case is known.
        A figure for the auditor, or what an account charges.
    log_caps: shape (n, V), nats: an upper bound on log_h that a paper reports; None for none.
    law: of the answers, where more than one token is released; None for a token from log_h.
    """

    log_h: torch.Tensor
    weights: torch.Tensor | None = None
    costs: torch.Tensor | None = None
    log_caps: torch.Tensor | None = None
    law: Law | None = None

    def first(self, n: int) -> Mixed:
        """Return the first n answers, without what they cost."""
        log_caps = None if self.log_caps is None else self.log_caps[:n]
        law = None if self.law is None else self.law.first(n)
        return Mixed(self.log_h[:n], log_caps=log_caps, law=law)


class Mechanism(Protocol):
    """Computes what is released of the members' answers. Members influence an answer only through
    `mix`.

    access: what an answer gives away. reads_public: whether the public model's distribution follows
        the members'.
    """

    @property
    def access(self) -> Access: ...

    @property
    def reads_public(self) -> bool: ...

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Answer n queries from the models' distributions (n, m, V), float64, nats, and leave these
        as they are.

        seeds: 256 bits for the noise of each query, used nowhere else.
        """
