"""Models that read less than usual at once, and a copy of the embedded one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.models import causal, head
from audit.models.head import Head


@pytest.fixture(params=[1, 64], ids=["always shared", "shared where it pays"])
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """What texts share is read once: always, or where it pays."""
    with patch.object(causal, "_FEW", request.param):
        yield


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """in_parts(logits): makes so many at once; of how many positions, of every call."""

    def begin(logits: int) -> list[int]:
        seen: list[int] = []
        real = Head.logits

        def watched(self: Head, vectors: torch.Tensor) -> torch.Tensor:
            seen.append(vectors.shape[0] * vectors.shape[1])
            return real(self, vectors)

        monkeypatch.setattr(Head, "logits", watched)
        monkeypatch.setattr(head, "AT_ONCE", logits)
        return seen

    return begin


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A writable copy of the embedded model."""
    return Path(shutil.copytree(EMBEDDED_FOLDER / "public_model", tmp_path / "model"))
