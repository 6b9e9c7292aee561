"""What work with a model takes, by the model itself or by one and two of its own blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.models import measuring
from audit.models.loading import describe
from audit.models.measuring import Peak, measured, shallow
from tests.models.shapes import BY_NAME, SHAPES, Folder, Shape

LORA = Lora(2, 4)
REFUSED = {"BERT", "T5"}  # see docs/model-shapes.md
SHAPED = [shape for shape in SHAPES if shape.name not in REFUSED]


def folder_of(shape: Shape, path: Path, dtype: torch.dtype = torch.float32) -> ModelFolder:
    """Stores a model of the shape beside the embedded tokenizer."""
    Folder.of(shape, path, dtype=dtype)
    return replace(describe(str(path), EMBEDDED_FOLDER), lora=LORA)


def deep(blocks: int) -> Shape:
    return replace(BY_NAME["Llama"], changes={"num_hidden_layers": blocks})


def parameters(model: Any) -> list[float]:
    return [float(sum(p.numel() for p in model.parameters())), float(model.config.vocab_size)]


@pytest.mark.parametrize("shape", SHAPED, ids=[shape.name for shape in SHAPED])
def test_shallow_models_of_every_shape_can_be_made(shape: Shape, tmp_path: Path) -> None:
    model = folder_of(shape, tmp_path)
    one, two = (sum(p.numel() for p in shallow(model, n, "cpu").parameters()) for n in (1, 2))
    assert 0 < one < two


def test_large_models_are_drawn_through_two_depths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many parameters in every block; as many words in each model."""
    model = folder_of(deep(5), tmp_path)
    whole = measured(model, "cpu", 1, parameters)
    monkeypatch.setattr(measuring, "LARGE", 0)
    assert measured(model, "cpu", 1, parameters) == pytest.approx(whole)


def test_blocks_are_held_as_the_model_is_stored(tmp_path: Path) -> None:
    def layer(dtype: torch.dtype) -> Any:
        model = shallow(folder_of(deep(3), tmp_path / str(dtype), dtype), 1, "cpu")
        (found,) = (m for name, m in model.named_modules() if name.endswith("down_proj"))
        return found

    assert type(layer(torch.float32)) is torch.nn.Linear
    assert layer(torch.bfloat16).weight.dtype == torch.bfloat16


def test_nothing_global_is_changed(tmp_path: Path) -> None:
    model = folder_of(deep(1), tmp_path)
    before = torch.get_num_threads(), torch.random.get_rng_state()
    measured(model, "cpu", 1 + before[0], lambda inner: [float(torch.rand(()))])
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


def test_peak_counts_tensors_while_they_are_there() -> None:
    """100 and 50 numbers at once; then 100 and 20, of which 100 stay."""
    given = torch.zeros(1000)
    with Peak() as peak:
        kept = torch.zeros(100)
        kept.add_(1.0)  # in place
        view = kept[:10]  # of the same numbers
        given.add_(1.0)
        given[:5].add_(1.0)
        other = torch.zeros(50)
        assert (peak.held, peak.most) == (600, 600)
        del other
        last = torch.zeros(20)
    assert (peak.held, peak.most) == (480, 600)
    del last
    assert peak.held == 400 and len(view) == 10
    del kept, view
    assert peak.held == 0


def test_peak_sees_the_way_back() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with Peak() as peak:
        (weight.exp().exp()).sum().backward()  # type: ignore[no-untyped-call]
    assert peak.held == 4000  # the gradient
    assert 3 * 4000 <= peak.most <= 5 * 4000
