"""Silent faults of trainings that this tool runs: each is counted, and its cause is named.

The unharmed trainings of the same tiny corpus show contact, with counts known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.terms import Shown
from audit.core.training import NotFiniteError, Training
from audit.measure.releases import releases
from audit.models.loading import describe
from audit.models.training import dp_sgd, fine_tuning, per_example_gradients
from audit.plan.resolve import resolve_on
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.measurement import Link
from audit.silence.counted import REMOVED, contact
from audit.train.task import Task
from audit.train.train import train_all
from tests.train.conftest import silent

PRIVATE = [Record(f"u{i}", f"Hello, my parcel {i} is late.", split="private") for i in range(10)]
OTHERS = [
    *(Record(f"h{i}", f"Good morning {i}, thank you.", split="heldout") for i in range(3)),
    *(Record(f"p{i}", f"The public park number {i} is open.", split="public") for i in range(4)),
]
CORPUS = Corpus("tiny", (*PRIVATE, *OTHERS))
PLANTING = {"users": 8, "code_copies": 2, "id_copies": [1, 2], "kinds": ["code", "id"]}
DP = "dp_sgd:epochs=3"
TWICE = "s_dpsgd:epochs=3,schedule=twice"
SEQPATE = "seqpate:teachers=2,sentences=8,epochs=1,queries=4"
MADE = ("none", DP, "submix:k=2", TWICE, "redaction", SEQPATE)


def prepared(stages: Path, *defenses: str, **training: Any) -> Run:
    """Prepare a run of few short texts, with the undefended model among its references."""
    settings = {
        "defense": defenses,
        "attack": ("extraction", "exposure"),
        "seed": 3,
        "device": "cpu",
        "threads": 1,
        "training": {"epochs": 2, "max_length": 64, "batch_tokens": 128, **training},
        "planting": PLANTING,
    }
    return prepare(resolve_on(settings, CORPUS, describe("embedded", EMBEDDED_FOLDER)), stages)


def trained(run: Run) -> Run:
    train_all(run.trainings, 1, silent)
    return run


def links(run: Run) -> dict[str, dict[str, Link]]:
    """Find the contact of every release, by its defense."""
    return {one.name: contact(run, one) for one in releases(run, silent)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The unharmed trainings; a fault that harms one of them leaves the others here."""
    return trained(prepared(tmp_path_factory.mktemp("made"), *MADE))


def test_quiet_trainings_show_contact_with_exact_counts(made: Run) -> None:
    found = links(made)
    heads = sum(made.planted.coins.present.values())
    for name in ("none", "dp_sgd", "submix", "submix_unprotected", "s_dpsgd", "seqpate"):
        for kind in ("code", "id"):
            assert (found[name][kind].state, found[name][kind].n) == (Shown.SHOWN, heads), name
    copies = 2 * heads  # of codes; two passes read each twice
    assert f"{2 * copies} times in all" in found["none"]["code"].by
    assert f"{2 * copies} times in all" in found["submix"]["code"].by
    for kind in ("code", "id"):
        assert found["redaction"][kind].by.startswith(f"{REMOVED}: 0 of {heads} planted {kind}s")
        assert "Nothing was trained" in found["public"][kind].by
