"""Units of one coordinate each: their contributions can be read off the sum, one by one."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn

from audit.check.units import Units

WIDTH = 256  # entries of a record; most are used by no unit


class Pair(nn.Module):
    """Two linear layers on one input; a record's loss is the sum of their outputs.

    Its gradient is (x, x), whatever the parameters are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.first(x) + self.second(x)
        return total.squeeze(-1)


class Tied(nn.Module):
    """One linear layer that is used twice; a record's gradient is 2x."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = layer()

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.shared(x) + self.shared(x)
        return total.squeeze(-1)


def layer() -> nn.Linear:
    """Make a linear layer to one output whose weights are zero."""
    made = nn.Linear(WIDTH, 1, bias=False)
    nn.init.zeros_(made.weight)
    return made


def separate(norms: list[float], records: int = 1) -> Units:
    """Make a unit for each norm; each of its records has that gradient, in two tensors."""
    name = "vectors" if records == 1 else "users"
    return _units(name, tuple(norm / math.sqrt(2.0) for norm in norms), records, Pair)


def tied(norms: list[float]) -> Units:
    """Make a unit for each norm; its gradient is the sum over two uses of one weight."""
    return _units("tied vectors", tuple(norm / 2.0 for norm in norms), 1, Tied)


@lru_cache(maxsize=16)  # of which several runs have the same
def _units(name: str, sizes: tuple[float, ...], records: int, model: type[nn.Module]) -> Units:
    places = torch.zeros(len(sizes), WIDTH)
    for i, size in enumerate(sizes):
        places[i, i] = size
    blank = torch.zeros(WIDTH)
    return Units(name, places[:, None].repeat(1, records, 1), model, blank, apart=True)
