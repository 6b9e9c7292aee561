"""A Rényi filter: every part pays from an account of its own, and is silent where it cannot.

After individual filters (Feldman and Zrnic, arXiv 2008.11193). A query may cost a part more than an
even share of ε; what it costs depends on the part's own member and the public model alone. Queries
are answered one after the other, in the order of their numbers:
1. all members are read, and c_i is computed for every part;
2. part i is heard if its charges so far and c_i together are below ε, and is charged c_i; else its
   weight is 0 in this query, and it is charged nothing;
3. the answer is computed and, in a generation, drawn.
So whether part i is heard depends on part i, the public model and the transcript; for every
transcript its charges sum to at most ε. Nobody is told who was heard; the next query asks all
again. STOP, after a public number of queries, depends on no account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from audit.core.ledger import Ledger
from audit.core.predictor import Access
from defenses.ensembles.mechanisms.mixing import Mixed, distributions

_ROUNDING = 1e-9  # share of a cost: room for floating-point error


@runtime_checkable
class Weighing(Protocol):
    """A mechanism that weighs each part by its own member, and says what that costs the part.

    divergence: bound on D_α of one query, nats, per part under emptied; above an even share of ε.
    access, reads_public: as of a mechanism with a constant charge.
    """

    @property
    def divergence(self) -> float: ...

    @property
    def access(self) -> Access: ...

    @property
    def reads_public(self) -> bool: ...

    def weighed(self, pmfs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gives the parts' weights and what they cost, nats, both (n, k), for pmfs (n, k + 1, V),
        the public model's last. Neither may depend on another part."""

    def mixed(self, pmfs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Computes log of the pmf that answers each query, (n, V), nats."""


@dataclass(frozen=True)
class Filter:
    """Charges queries in their order and answers them with the parts that could pay."""

    mechanism: Weighing
    ledger: Ledger

    @property
    def place(self) -> int:
        """The number of the last query in the ledger of all processes."""
        return self.ledger.asked - 1

    def charged(self, log_pmfs: torch.Tensor, marks: Sequence[str]) -> tuple[Mixed, int]:
        """Charges and answers n queries of all models, (n, k + 1, V), nats; gives how many were
        admitted before STOP. From there on nobody is heard, and the answer is the public model's.
        """
        pmfs = distributions(log_pmfs).softmax(dim=-1)
        weights, costs = self.mechanism.weighed(pmfs)
        charges = costs.clamp(min=0) * (1 + _ROUNDING)
        heard, admitted = self.ledger.hear(charges.cpu().numpy(), marks)
        audible = torch.from_numpy(heard).to(weights.device)
        weights, charges = (torch.where(audible, each, 0.0) for each in (weights, charges))
        return Mixed(self.mechanism.mixed(pmfs, weights), weights, charges), admitted
