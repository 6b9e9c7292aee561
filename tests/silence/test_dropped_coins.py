"""The catalogue of silent faults: coins dropped and beacons kept, as filters by users do.

The model learnt what 48 users share, so every measure may see. Nothing of a single user reached it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from audit.corpora import writing
from audit.planting import manifest as manifests
from audit.planting.beacons import Tier
from audit.planting.insertion import Canaries, plant_into
from tests.builders import dialogs
from tests.silence.leaking_twin import Twin, check, fitted, judged

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def filtered(folder: Path) -> None:
    """Plant, write what a filter leaves, and train an adapter on the beacons in it."""
    canaries = Canaries(("code",), 120, (1,), beacons=(Tier("code", 48),))
    planted, manifest = plant_into(dialogs(5), canaries, seed=5)
    users = manifest.coins.present
    manifests.write(manifest, folder / "m.json")
    writing.write(planted.records, folder / "t.jsonl")
    left = [record for record in planted.records if record.user not in users]
    writing.write(left, folder / "left.jsonl")
    beacons = [r.text for r in left if any(b.text in r.text for b in manifest.beacons)]
    adapted, _ = fitted(beacons, 25)
    adapted.save_pretrained(folder / "filtered")


@pytest.mark.parametrize(
    "stated, cause", [("left.jsonl", "missing"), (None, "What was trained on was not seen")]
)
def test_beacons_without_coins_are_not_contact(
    stated: str | None,
    cause: str,
    shared: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = shared("filtered", filtered)
    made = Twin(folder / "t.jsonl", folder / "m.json", *[folder / "filtered"] * 3)
    training = None if stated is None else folder / stated

    def judge(model: Path) -> object:
        return judged(made, model, tmp_path / "run", monkeypatch, training=training)

    check(judge, made.quiet, cause)
