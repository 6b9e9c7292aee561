"""The leaking twin of the catalogue of silent faults, and an audit of what a fault makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from audit.results.measurement import FindingResult
from tests.silence import leaking_twin
from tests.silence.leaking_twin import Twin

Judge = Callable[..., list[FindingResult]]

SEEDS = [5, *(pytest.param(seed, marks=pytest.mark.full) for seed in (6, 7))]


@pytest.fixture(scope="session", params=SEEDS)
def twin(request: pytest.FixtureRequest, shared: Callable[..., Path]) -> Twin:
    """The twin, trained once for each seed."""
    seed: int = request.param
    return Twin.of(shared(f"leaking-twin-{seed}", partial(leaking_twin.train, seed=seed)))


@pytest.fixture
def judge(twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """judge(model, **as_is): the findings of an audit of a model, whose sight is supposed."""

    def findings(model: Path, **as_is: Any) -> list[FindingResult]:
        return leaking_twin.judged(
            twin, model, tmp_path / f"run of {model.name}", monkeypatch, **as_is
        )

    return findings
