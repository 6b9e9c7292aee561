"""The units of an examination: data whose gradients are known before any engine sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audit.check.engine import flat

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """m units, and the model that gives each its gradient.

    name: what the results call them. records: (m, r, …), r records of each unit.
    model: makes the model, the same at each call; see `Trial.model`.
    blank: a record whose gradient is zero, (…); None: there is none.
    apart: whether no two units share a coordinate of the gradient.
    """

    name: str
    records: Tensor
    model: Callable[[], nn.Module]
    blank: Tensor | None
    apart: bool

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def gradients(self) -> Floats:
        """(m, D): the mean of each unit's gradients at the initial parameters, by a plain loop."""
        shape = self.records.shape
        each = plain_gradients(self.model(), self.records.flatten(0, 1))
        return each.view(shape[0], shape[1], -1).double().mean(dim=1).numpy()

    @cached_property
    def norms(self) -> Floats:
        return np.asarray(np.linalg.norm(self.gradients, axis=1))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each parameter; they add up to D."""
        return tuple(parameter.numel() for parameter in self.model().parameters())

    def clipped(self, max_norm: float) -> Floats:
        """Compute (m, D): what each sampled unit should add."""
        return self.gradients * np.minimum(1.0, max_norm / self.norms)[:, None]

    def population(self, present: NDArray[np.bool_], size: int) -> Tensor:
        """Make (size, r, …): the records of the present units, then blanks. Raises ValueError."""
        kept = self.records[torch.from_numpy(present)]
        missing = size - len(kept)
        if missing < 0 or (missing and self.blank is None):
            raise ValueError(f"{len(kept)} units cannot make a population of {size}")
        if self.blank is None:
            return kept
        return torch.cat([kept, self.blank.expand(missing, *kept.shape[1:])])


def plain_gradients(model: nn.Module, records: Tensor) -> Tensor:
    """Compute each record's gradient, (n, D), one record at a time."""
    parameters = list(model.parameters())
    return torch.stack(
        [flat(torch.autograd.grad(model(record[None]).sum(), parameters)) for record in records]
    )
