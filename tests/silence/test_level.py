"""The level of the sentence test on the embedded model, over manifests it was not trained on."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.core.randomness import stream
from audit.core.secret import Draw
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.planting.kinds import sentence_space
from audit.silence.learnt import Gain


@pytest.mark.calibration
@pytest.mark.parametrize("kind", ["code", "id", "name"])
def test_sentence_test_keeps_its_level(kind: str) -> None:
    """The base with a little noise on every weight, audited for 200 manifests it never saw."""
    folder = describe("embedded", EMBEDDED_FOLDER)
    inner = load_weights(folder, "cpu")
    base = CausalLM(inner, load_tokenizer(folder), folder.max_length)
    noisy = copy.deepcopy(inner)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in noisy.parameters():
            weight.add_(1e-3 * torch.randn_like(weight))
    audited, public = (
        OpenSession(one, stream(0, "scores")) for one in (replace(base, inner=noisy), base)
    )
    gain, space = Gain(audited, public), sentence_space(kind)
    p_values = []
    for seed in range(200):
        draw = Draw(space, space.draw(stream(seed, "manifest", kind)))
        p_values.append(gain.learnt(draw, "", 199, stream(seed, "others", kind)).p_value)
    found = {
        level: float((np.array(p_values) <= level).mean()) for level in (0.005, 0.05, 0.1, 0.5)
    }
    print(kind, found)
    for level, share in found.items():  # four standard errors: one in 30,000 runs fails
        assert share <= level + 4 * np.sqrt(level * (1 - level) / 200)
    assert found[0.5] > 0.35
