"""A frozen base in bfloat16: half the memory, the same numbers, and nobody moves another's."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.models import loading
from audit.models.held_weights import computes_in_half, hold, let_go
from audit.models.loading import describe, load_weights
from audit.models.training import dp_sgd
from audit.models.training.dp_sgd import Noise, NoisySum, adapted
from audit.models.training.examples import Example, collate
from audit.models.training.per_example_gradients import Clipped, clipped_gradients, loop, trainable
from tests.models.shapes import BY_NAME, Folder, Shape

HELD = (torch.bfloat16, torch.float32)
CPU = torch.device("cpu")
NAMES = ("GPT-2", "Llama, tied", "Qwen 2", "Gemma", "OPT", "GPT-NeoX, Pythia")
EXACT = 1e-5  # relative: the rounding of float32 over a model
EVERYONE = 1e9  # a clipping norm that clips nobody


def stored(name: str, **changes: Any) -> Any:
    """A model as it is loaded from a folder in bfloat16: float32, rounded once."""
    shape: Shape = BY_NAME[name]
    model = Shape(shape.name, shape.kind, "", {**shape.changes, **changes}).make()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())
    return model


def texts(count: int = 8) -> list[Example]:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 40, (count,), generator=draw).tolist()
    tokens = [torch.randint(1, 1024, (n + 1,), generator=draw).tolist() for n in lengths]
    return [Example(((row, [1 / n] * n),)) for row, n in zip(tokens, lengths, strict=True)]


@contextmanager
def with_adapters(model: Any) -> Iterator[Any]:
    """Adapters that say something, so that the gradients of both halves do."""
    draw = torch.Generator().manual_seed(1)
    with adapted(model, "all", 2, 0) as inner:
        for name, weight in inner.named_parameters():
            if "lora_B" in name:
                weight.data.normal_(0, 0.1, generator=draw)
        yield inner


def size(model: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())


def vector(found: Clipped) -> torch.Tensor:
    return torch.cat([total.flatten() for total in found.sums])


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_sums_are_the_float32_loops(name: str) -> None:
    batch, model = collate(texts(), CPU), stored(name)
    with with_adapters(copy.deepcopy(model)) as inner:
        let_go(inner)
        expected = loop(inner, batch, EVERYONE)
        limit = float(expected.norms.median())
        expected = loop(inner, batch, limit)
    with with_adapters(model) as inner:
        assert any(p.dtype == torch.bfloat16 for p in inner.parameters())
        assert all(p.dtype == torch.float32 for p in trainable(inner))
        found = clipped_gradients(inner, batch, limit)
    assert all(total.dtype == torch.float32 for total in (*found.sums, found.norms))
    torch.testing.assert_close(found.norms, expected.norms, rtol=EXACT, atol=0)
    gap = (vector(found) - vector(expected)).norm() / vector(expected).norm()
    assert float(gap) < EXACT


@pytest.mark.parametrize("name", NAMES)
def test_a_held_base_is_restored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def released(model: Any) -> Any:
        with with_adapters(model):
            pass
        return model

    model = stored(name)
    found = released(copy.deepcopy(model))
    monkeypatch.setattr(dp_sgd, "hold", lambda model: None)
    expected = released(copy.deepcopy(model))
    assert [type(m) for m in found.modules()] == [type(m) for m in model.modules()]
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in model.named_parameters()]
    for one, other in zip(found.parameters(), expected.parameters(), strict=True):
        assert one.dtype == torch.float32 and torch.equal(one, other)


def test_it_takes_half_the_memory() -> None:
    model = stored("Llama", hidden_size=64, intermediate_size=192)
    whole = size(model)
    for weight in model.parameters():
        weight.requires_grad_(False)
    hold(model)
    assert 0.5 < size(model) / whole < 0.51  # gains stay in float32
    let_go(model)
    assert size(model) == whole


def test_lossy_or_trained_weights_are_not_held() -> None:
    def kinds(model: Any) -> set[torch.dtype]:
        hold(model)
        return {p.dtype for p in model.parameters()}

    whole = BY_NAME["Llama"].make()
    assert kinds(whole.requires_grad_(False)) == {torch.float32}
    assert kinds(stored("Llama")) == {torch.float32}
    tied = stored("Gemma").requires_grad_(False)
    hold(tied)  # its table scales what is looked up, and the head shares the table
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert tied.lm_head.weight.dtype == torch.float32
    assert tied.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16


def moved_by_others(model: Any) -> float:
    """How far one text moves the clipped sum of the others, in clipping norms."""
    mine, *others = texts()
    together, without, alone = (
        clipped_gradients(model, collate(some, CPU), 1e-3)
        for some in ([mine, *others], others, [mine])
    )
    return float((vector(together) - vector(without) - vector(alone)).norm()) / 1e-3


def test_half_precision_is_refused() -> None:
    """How far others move them in half precision depends on the processor: not at all to 1 %."""
    wide = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2}
    with with_adapters(stored("Llama", **wide)) as inner:
        assert not computes_in_half(inner)
        assert moved_by_others(inner) < EXACT
        let_go(inner)
        for weight in inner.parameters():  # put back: activations are rounded, too
            if not weight.requires_grad:
                weight.data = weight.data.bfloat16()
        assert computes_in_half(inner)
        noise = Noise(1.0, 1.0)
        with pytest.raises(UsageError, match=r"half precision.*depends on the others"):
            NoisySum(inner, noise, None)  # type: ignore[arg-type]
        for weight in inner.parameters():
            weight.data = weight.data.float()


# loading


def folder_of(name: str, place: Path) -> ModelFolder:
    """A folder with a model that is stored in bfloat16."""
    Folder.of(BY_NAME[name], place, dtype=torch.bfloat16)
    return describe(str(place), EMBEDDED_FOLDER)


@pytest.mark.parametrize("name", ["GPT-2", "Llama, tied", "Qwen 2"])
def test_a_base_held_as_stored_answers_alike(name: str, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path)
    plain, held = load_weights(folder, "cpu"), load_weights(replace(folder, lora=Lora()), "cpu")
    tokens = torch.arange(1, 50)[None]
    with torch.no_grad():
        assert torch.equal(plain(input_ids=tokens).logits, held(input_ids=tokens).logits)
    sizes = {dtype: sum(p.numel() for p in held.parameters() if p.dtype == dtype) for dtype in HELD}
    assert sizes[torch.bfloat16] > 10 * sizes[torch.float32] > 0
    assert not any(p.requires_grad for p in held.parameters())
    assert {b.dtype for b in held.buffers()} <= {torch.float32, torch.int64, torch.bool}


@pytest.mark.parametrize("named", ["bfloat16", "float16"])
def test_a_float32_base_is_never_rounded(named: str, tmp_path: Path) -> None:
    Folder.of(BY_NAME["Llama"], tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "dtype": named}))
    folder = describe(str(tmp_path), EMBEDDED_FOLDER)
    plain, held = load_weights(folder, "cpu"), load_weights(replace(folder, lora=Lora()), "cpu")
    tokens = torch.arange(1, 50)[None]
    with torch.no_grad():
        assert torch.equal(plain(input_ids=tokens).logits, held(input_ids=tokens).logits)


def test_a_bfloat16_base_is_read_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so never takes the memory of float32."""
    folder, file, read = folder_of("Llama", tmp_path), tmp_path / "config.json", loading._read
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "dtype": "float32"}))
    kinds: list[set[torch.dtype]] = []

    def seen(path: Path, dtype: Any = torch.float32) -> Any:
        model = read(path, dtype)
        kinds.append({weight.dtype for weight in model.parameters()})
        return model

    monkeypatch.setattr(loading, "_read", seen)
    load_weights(replace(folder, lora=Lora()), "cpu")
    assert kinds == [{torch.bfloat16}]


def test_one_float32_weight_is_not_rounded(tmp_path: Path) -> None:
    folder, file = folder_of("Llama", tmp_path), tmp_path / "model.safetensors"
    third = torch.full((16,), 1 / 3)
    save_file({**load_file(file), "model.norm.weight": third}, file, {"format": "pt"})
    held: Any = load_weights(replace(folder, lora=Lora()), "cpu")
    assert torch.equal(held.model.norm.weight, third)
    assert held.lm_head.weight.dtype == torch.bfloat16


def test_constants_are_computed_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = folder_of("Llama", tmp_path), loading._read

    def rounding(path: Path, dtype: Any = torch.float32) -> Any:
        model = read(path, dtype)
        exact = torch.tensor([1 / 3], dtype=torch.float32)
        model.register_buffer("scale", exact if dtype == torch.float32 else exact.bfloat16())
        return model

    monkeypatch.setattr(loading, "_read", rounding)
    held: Any = load_weights(replace(folder, lora=Lora()), "cpu")
    assert torch.equal(held.scale, torch.tensor([1 / 3]))
    assert held.lm_head.weight.dtype == torch.bfloat16
