"""Two models compared on planted texts: alike within what one model differs from itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from audit.contract.toys import Bigram
from audit.core.predictor import Tokens
from audit.silence.difference import Difference, difference

TEXTS = [[0, 1, 2, 3], [0, 3, 2], [0, 4, 5, 1, 1]]


@dataclass(frozen=True)
class Rounded(Bigram):
    """A model whose answers differ by `wobble` once several texts are read together."""

    wobble: float = 0.0

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        return super().log_pmfs(texts, starts) + (self.wobble if len(texts) > 1 else 0.0)


def changed(base: Bigram, amount: float) -> Bigram:
    table = base.log_table.copy()
    table[3, 2] += amount
    return replace(base, log_table=table)


@pytest.mark.parametrize(
    "wobble, amount, alike",
    [
        (0.0, 0.0, True),
        (0.0, 0.9e-6, True),
        (0.0, 1.1e-6, False),
        (1e-3, 3.9e-3, True),
        (1e-3, 4.1e-3, False),
        (0.0, np.nan, True),
    ],
)
def test_difference_counts_beyond_four_floors(
    bigram: Callable[..., Bigram], wobble: float, amount: float, alike: bool
) -> None:
    one = bigram(3)
    base = Rounded(one.log_table, one.tokenizer, wobble=wobble)
    seen = difference(changed(base, amount), base, TEXTS)
    assert seen.is_none is alike
    assert seen.texts == 3
    assert seen.floor == pytest.approx(wobble, abs=1e-12)


def test_token_impossible_to_both_makes_no_difference(bigram: Callable[..., Bigram]) -> None:
    base = changed(bigram(3), -np.inf)
    assert difference(base, base, TEXTS) == Difference(floor=0.0, largest=0.0, texts=3)
