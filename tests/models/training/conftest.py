"""Who is sampled by trainings with noise, and what their steps are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from audit.models.training import dp_sgd, examples
from audit.models.training.dp_sgd import NoisySum
from audit.models.training.examples import Example
from audit.models.training.per_example_gradients import Batch


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[Example]]:
    """Whom each step sampled."""
    seen: list[list[Example]] = []

    def noted(*given: Any) -> list[Example]:
        seen.append(examples.lot(*given))
        return seen[-1]

    monkeypatch.setattr(dp_sgd, "lot", noted)
    return seen


@dataclass
class Steps:
    """What each step was made of: how many examples, all their rows, the divisor."""

    sizes: list[int] = field(default_factory=list)
    rows: list[Counter[tuple[int, ...]]] = field(default_factory=list)
    divisors: list[float] = field(default_factory=list)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Noisy sums that are noted instead of taken."""
    seen = Steps()

    def into(self: NoisySum, batches: Iterable[Batch], divisor: float) -> None:
        kept = list(batches)
        seen.sizes.append(sum(batch.examples for batch in kept))
        rows = [
            tuple(tokens[counts > 0].tolist())
            for batch in kept
            for block in batch.blocks
            for tokens, counts in zip(block.inputs, block.weights, strict=True)
        ]
        seen.rows.append(Counter(row for row in rows if row))
        seen.divisors.append(divisor)

    monkeypatch.setattr(NoisySum, "into_gradients", into)
    return seen
