"""Who is sampled by trainings with noise."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models.training import dp_sgd, examples, selective
from audit.models.training.examples import Example


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[Example]]:
    """Whom each step sampled."""
    seen: list[list[Example]] = []

    def noted(*given: Any) -> list[Example]:
        seen.append(examples.lot(*given))
        return seen[-1]

    for module in (dp_sgd, selective):
        monkeypatch.setattr(module, "lot", noted)
    return seen
