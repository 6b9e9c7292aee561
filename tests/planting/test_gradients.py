"""Records chosen by gradients: large ones that overlap least, whatever the coins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.predictor import record_tokens
from audit.core.randomness import stream
from audit.models.gradient_sketch import SIZE, Sketch
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.planting import gradients, insertion
from audit.planting import manifest as manifests
from audit.planting.coins import coins_of
from audit.planting.designs import Base
from audit.planting.gradients import least_overlapping, make

TEXTS = ["My parcel is late.", "My parcel is late!", "The garden was a letter of the sea", "zzz"]


def test_overlap_is_that_of_a_plain_loop() -> None:
    draws = stream(0, "gradients")
    some, common = draws.normal(size=(40, 6)) * draws.uniform(1, 9, size=(40, 1)), np.ones(6)

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    overlap = {
        i: float(np.mean([cosine(g, h) ** 2 for h in some])) + cosine(g, common) ** 2
        for i, g in enumerate(some)
        if np.linalg.norm(g) >= np.median(np.linalg.norm(some, axis=1))
    }
    assert len(overlap) == 20
    found = least_overlapping(some, common, 10)
    assert found.tolist() == sorted(overlap, key=lambda i: overlap[i])[:10]


def test_axes_are_chosen_before_what_points_with_others() -> None:
    axes, along = 2 * np.eye(8)[:4], 2 * (np.eye(8)[4] + 0.1 * np.eye(8)[:4])
    shared = 9 * np.eye(8)[[7]]  # larger, and what all text has in common
    small = 0.1 * np.eye(8)[[5, 6, 5, 6, 5, 6, 5, 6, 5]]
    every = np.concatenate([along, small, axes, shared])
    assert sorted(least_overlapping(every, np.eye(8)[7], 4)) == [13, 14, 15, 16]


def test_a_text_without_gradient_is_refused() -> None:
    for worst in (0.0, np.nan, np.inf):
        with pytest.raises(UsageError, match="a text has no gradient"):
            least_overlapping(np.array([[1.0, 2.0], [worst, worst]]), np.ones(2), 1)
    with pytest.raises(UsageError, match="a text has no gradient"):
        least_overlapping(np.eye(2), np.array([1.0, np.nan]), 1)


def test_a_long_text_is_read_as_far_as_the_model_can() -> None:
    folder = describe("embedded", EMBEDDED_FOLDER)
    tokenizer = load_tokenizer(folder)
    sketch = Sketch(load_weights(folder, "cpu"), tokenizer, folder.max_length)
    words = "The parcel is late. " * folder.max_length
    assert np.array_equal(sketch(words), sketch(2 * words))


def test_sketches_keep_norms_and_angles() -> None:
    """Within four standard deviations of the gradients by autograd."""
    folder = describe("embedded", EMBEDDED_FOLDER)
    model, tokenizer = load_weights(folder, "cpu"), load_tokenizer(folder)
    whole = []
    for text in TEXTS:
        tokens = torch.tensor([record_tokens(tokenizer, text)])
        loss = model(input_ids=tokens, labels=tokens).loss
        parts = torch.autograd.grad(loss, list(model.parameters()))
        whole.append(torch.cat([part.flatten() for part in parts]).double().numpy())
    sketch = Sketch(model, tokenizer, folder.max_length)
    short = [sketch(text) for text in TEXTS]
    places = torch.cat(sketch._places).numpy()
    signed = whole[0] * np.where(places < SIZE, 1, -1)
    assert np.allclose(short[0], np.bincount(places % SIZE, signed, SIZE), atol=1e-3)
    assert abs(float(np.mean(places < SIZE)) - 0.5) < 0.01
    for g, a in zip(whole, short, strict=True):
        for h, b in zip(whole, short, strict=True):
            scale = float(np.linalg.norm(g) * np.linalg.norm(h))
            assert abs(a @ b - g @ h) < 4 * (2 / SIZE) ** 0.5 * scale


def toy(text: str) -> np.ndarray:
    """Count letters, in place of a gradient."""
    return np.array([1.0 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"])


TOY = Base("toy", "f" * 64, None, lambda: toy)  # type: ignore[arg-type]


def test_a_seed_gives_its_records() -> None:
    public = ["a text", "another"]
    one = make(TOY, public, 8, 0)
    assert one == make(TOY, public, 8, 0) and len(set(one.records)) == 8
    assert not set(one.records) & set(make(TOY, public, 8, 1).records)
    assert one.document["drawn"] == 32 and one.document["name"] == "gradient"
    with pytest.raises(UsageError, match="--base toy: has no gradients"):
        make(replace(TOY, sketch=None), public, 8, 0)


def test_slots_are_dealt_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the overlap of a record, its place among the owners is uniform."""
    monkeypatch.setattr(gradients, "least_overlapping", lambda *_: np.arange(2))
    first = [make(TOY, ["a"], 2, seed) for seed in range(64)]
    texts = [[text for _, text in one.records] for one in first]
    draws = [stream(seed, "canaries", "records") for seed in range(64)]
    heads = [gradients.values("record").draw(draw) for draw in draws]
    assert 16 < sum(t[0] == head for t, head in zip(texts, heads, strict=True)) < 48


@pytest.mark.parametrize("heads", [0, 1])
def test_no_coin_moves_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heads: int
) -> None:
    monkeypatch.setattr(gradients, "_COMMON", 4)
    given: dict[str, Any] = {"kind": ["record"], "count": 3, "design": "gradient", "seed": 1}
    given |= {"base": "embedded", "share": 0.9}
    source = tmp_path / "c.jsonl"
    lines = (json.dumps({"text": f"call {i}", "user": f"u{i}"}) + "\n" for i in range(20))
    source.write_text("".join(lines))
    api.plant(str(source), tmp_path / "p.jsonl", tmp_path / "m.json", **given)
    monkeypatch.setattr(insertion, "toss", lambda owners, _: coins_of(owners, [heads] * 3, [0] * 3))
    api.plant(str(source), tmp_path / "q.jsonl", tmp_path / "n.json", **given)
    one, other = (manifests.read(tmp_path / name) for name in ("m.json", "n.json"))
    assert one.secrets == other.secrets and one.coins != other.coins
    assert one.design == other.design
