"""What a token of a large model takes, by one and three of its own blocks."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.models import own_blocks
from audit.models.adapters import fresh
from audit.models.held_weights import HeldLinear
from audit.models.loading import describe, load_weights
from tests.models.shapes import SHAPES, Shape

LORA = Lora(2, 4)
REFUSED = {"Mixtral", "BERT", "T5"}  # see docs/model-shapes.md
WITHOUT_ADAPTERS = "Mamba"
SHAPED = [shape for shape in SHAPES if shape.name not in REFUSED]
QUICK = ("GPT-2", "BLOOM", "Llama, tied", "Gemma 2", "OPT", "Mamba")


def folder_of(shape: Shape, path: Path, dtype: torch.dtype = torch.float32) -> ModelFolder:
    """Stores a model of the shape beside the embedded tokenizer."""
    shape.make().to(dtype).save_pretrained(path)
    for file in (EMBEDDED_FOLDER / "public_model").glob("tokenizer*"):
        (path / file.name).write_bytes(file.read_bytes())
    return replace(describe(str(path), EMBEDDED_FOLDER), lora=LORA)


def deep(blocks: int) -> Shape:
    (llama,) = (shape for shape in SHAPES if shape.name == "Llama")
    return replace(llama, changes={"num_hidden_layers": blocks})


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(shape, id=shape.name, marks=() if shape.name in QUICK else pytest.mark.slow)
        for shape in SHAPED
    ],
)
def test_every_shape_is_measured(shape: Shape, tmp_path: Path) -> None:
    model = folder_of(shape, tmp_path)
    loras = [None] if shape.name == WITHOUT_ADAPTERS else [None, LORA]
    for lora in loras:
        cost = own_blocks.cost_of_token(replace(model, lora=lora), "cpu", 1)
        assert cost.training > 0 and cost.kept > 0


def test_adapters_without_a_layer_are_refused(tmp_path: Path) -> None:
    (mamba,) = (shape for shape in SHAPED if shape.name == WITHOUT_ADAPTERS)
    with pytest.raises(UsageError, match=r"^--lora r=2,.*; give other targets, or leave it out$"):
        own_blocks.cost_of_token(folder_of(mamba, tmp_path), "cpu", 1)


def test_blocks_keep_what_the_model_keeps(tmp_path: Path) -> None:
    """Of seven blocks one and three are measured; models of seven and two tell five blocks."""
    torch.manual_seed(0)
    folders = [folder_of(deep(blocks), tmp_path / str(blocks)) for blocks in (7, 2)]
    wholes = [fresh(load_weights(folder, "cpu"), LORA).train() for folder in folders]
    tokens = own_blocks.TOKENS
    seven, two = (own_blocks._kept(whole, tokens) for whole in wholes)
    cost = own_blocks.cost_of_token(folders[0], "cpu", 1)
    assert cost.kept / 7 == pytest.approx((seven - two) / 5 / tokens)


def test_blocks_are_held_as_the_model_is_stored(tmp_path: Path) -> None:
    def layer(dtype: torch.dtype) -> Any:
        shallow = own_blocks._shallow(folder_of(deep(3), tmp_path / str(dtype), dtype), 1, "cpu")
        (found,) = (m for name, m in shallow.named_modules() if name.endswith("down_proj"))
        return found

    assert type(layer(torch.float32)) is torch.nn.Linear
    held = layer(torch.bfloat16)
    assert type(held) is HeldLinear and held.weight.dtype == torch.bfloat16


def test_a_line_through_two_depths() -> None:
    assert own_blocks._at_depth(5, (10.0, 14.0)) == 18.0
    assert own_blocks._at_depth(0, (10.0, 14.0)) == 8.0
    assert own_blocks._at_depth(9, (10.0, 9.0)) == 10.0  # small blocks, in a busy moment


def test_nothing_global_is_changed(tmp_path: Path) -> None:
    model = folder_of(deep(1), tmp_path)
    before = torch.get_num_threads(), torch.random.get_rng_state()
    own_blocks.cost_of_token(model, "cpu", 1 + before[0])
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


def held() -> int:
    """Counts the bytes of all tensors."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]
    return sum(one.numel() * one.element_size() for one in tensors)


def test_a_measurement_leaves_nothing_in_memory(tmp_path: Path) -> None:
    model = folder_of(deep(1), tmp_path)
    before = held()
    own_blocks.cost_of_token(model, "cpu", 1)
    assert held() <= before + 10_000
