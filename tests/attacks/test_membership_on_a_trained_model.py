"""The membership scores on the embedded model, trained on planted records and codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attacks.membership import Membership
from audit.core.attack import Knowledge
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.planting.insertion import Canaries, plant_into
from audit.statistics.roc import auc
from tests import builders

BESIDE_BASE = ("ez", "ratio", "wbc", "min_k_plus_plus_calibrated")


def session(weights: Any) -> OpenSession:
    folder = describe("embedded", EMBEDDED_FOLDER)
    model = CausalLM(weights, load_tokenizer(folder), folder.max_length)
    return OpenSession(model, np.random.default_rng(0))


@pytest.mark.slow
def test_every_score_separates_members_and_none_does_before_the_training() -> None:
    """60 invented users, about half of them planted, with a record and a code in eight copies."""
    canaries = Canaries(kinds=("record", "code"), count=60, repetitions=(8,))
    planted, manifest = plant_into(builders.dialogs(5), canaries, seed=5)
    weights, tokenizer = builders.loaded()
    texts = [r.text for r in planted.records if r.split == "private"]
    # a higher rate learns the words of their own that end each copy, and forgets the codes
    builders.fit(weights, tokenizer, texts, steps=200, rate=2e-3)
    base = session(load_weights(describe("embedded", EMBEDDED_FOLDER), "cpu"))
    secrets = [s for s in manifest.secrets if manifest.coins.slot[s.owner] == s.slot]
    member = np.array([manifest.coins.present[s.owner] for s in secrets])

    def areas(release: OpenSession) -> dict[tuple[str, str], float]:
        known = Knowledge(base, (), (), (), np.random.default_rng(0))
        found = {}
        for one in Membership().run(release, secrets, known):
            assert isinstance(one, Scores)
            read = ~np.isnan(one.values)
            area = auc(one.values[read & member], one.values[read & ~member]).value
            assert area is not None
            found[one.target, one.score] = area
        return found

    trained, untrained = areas(session(weights)), areas(base)
    for score in BESIDE_BASE:
        assert trained["record", score] > 0.9, score
        assert trained["span", score] > 0.65, score
        for target in ("record", "span"):  # nothing has moved
            assert untrained[target, score] == pytest.approx(0.5, abs=0.05), score
