"""Every shape of model is exact or refused, and the page in the docs says which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models.cached import Cache, _known, cache_of
from audit.models.causality import check_causal
from audit.models.loading import describe
from audit.models.training import gradient_factors, layer_rules, per_example_gradients
from audit.models.training.dp_sgd import NoisySum, adapted
from audit.models.training.gradient_factors import Outer, Use, Whole
from audit.models.training.layer_rules import Rule
from audit.models.training.per_example_gradients import Batch
from tests.models import shapes
from tests.models.shapes import (
    CLOSE,
    PAGE,
    SHAPES,
    Folder,
    Shape,
    definition,
    measured,
    page,
    private,
    read,
    rows,
)

BY_NAME = {shape.name: shape for shape in SHAPES}
WRONG = 100 * CLOSE


@pytest.mark.full
def test_the_page_is_what_is_measured() -> None:
    found = list(rows())
    assert page(found) == PAGE.read_text(encoding="utf-8")
    assert "WRONG" not in page(found)
    kinds = {shape.kind for shape in SHAPES}
    refused = {row.shape.kind for row in found if all(isinstance(c, str) for c in row.cells)}
    assert refused == {"bert", "t5"} and kinds > refused
    whole = [row for row in found if row.shape.kind not in refused | {"mamba", "mixtral"}]
    assert all(isinstance(cell, float) and cell < CLOSE for row in whole for cell in row.cells)


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "OPT", "CTRL"])
def test_a_row_is_what_is_measured(name: str, tmp_path: Path) -> None:
    row = measured(BY_NAME[name], tmp_path)
    parameters = sum(weight.numel() for weight in BY_NAME[name].make().parameters())
    assert describe(str(tmp_path / "1"), EMBEDDED_FOLDER).parameters == parameters
    assert row.shown() in PAGE.read_text(encoding="utf-8").splitlines()
    assert all(isinstance(cell, float) and cell < CLOSE for cell in row.cells)


# --- traps: each is put back, and seen


def without_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(module: nn.Module, a: torch.Tensor, g: torch.Tensor) -> dict[str, Use]:
        return {"weight": Whole((g * a).sum(dim=1))}

    monkeypatch.setattr(layer_rules, "_SCALED", Rule(bare))


def without_the_gradient_of_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_rules, "_SCALED", Rule(lambda module, a, g: {}))


def weights_at_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    def padded(batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            first, *more = (
                replace(block, weights=block.weights.clamp(min=0.02)) for block in batch.blocks
            )
            yield replace(first, more=tuple(more))

    real = shapes.collated
    monkeypatch.setattr(shapes, "collated", lambda *given: padded(real(*given)))


def keys_of_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared key's gradient from one of its two queries."""

    def narrow(module: nn.Linear, a: torch.Tensor, g: torch.Tensor) -> dict[str, Use]:
        return {"weight": Outer(g / 2 if module.out_features < module.in_features else g, a)}

    monkeypatch.setitem(layer_rules.RULES, nn.Linear, Rule(narrow))


def tied_once(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def put(monkeypatch: pytest.MonkeyPatch) -> None:
        real = getattr(gradient_factors, name)
        first = lambda uses, *rest: real(uses[:1], *rest)  # noqa: E731
        monkeypatch.setattr(per_example_gradients, name, first)

    return put


def unscaled_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(module: Any, a: torch.Tensor, g: torch.Tensor) -> dict[str, Use]:
        return layer_rules._embedding(module, (a[..., 1] / a[..., 0]).round().long(), g)

    monkeypatch.setattr(layer_rules, "_LOOKUP", Rule(plain, layer_rules._places))


TRAPS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "RMSNorm without its norm": ("Llama", without_the_norm),
    "RMSNorm without a gradient": ("Llama", without_the_gradient_of_gains),
    "padding in the sum": ("Llama", weights_at_padding),
    "grouped queries counted once": ("Llama", keys_of_one_query),
    "a tied matrix counted once in norms": ("Llama, tied", tied_once("squared_norm")),
    "a tied matrix counted once in the sum": ("Llama, tied", tied_once("weighted_sum")),
    "a scaled embedding without its scale": ("Gemma", unscaled_table),
}
UNSEEN = ("padding in the sum",)  # by the check: it reads what has a weight


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_put_back_is_seen(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, put = TRAPS[trap]
    folder = Folder.of(BY_NAME[name], tmp_path)
    assert private(folder.load(), 0) < CLOSE
    put(monkeypatch)
    if trap not in UNSEEN:
        with pytest.raises(RuntimeError, match="nothing was trained"):
            private(folder.load(), 0)
    monkeypatch.setattr(NoisySum, "_check", lambda self, batch: None)
    assert private(folder.load(), 0) > WRONG


# --- what is refused


def refusal(shape: Shape, place: Path, use: Callable[[Any], Any] = lambda model: None) -> str:
    with pytest.raises(UsageError) as raised:
        use(Folder.of(shape, place).load())
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_refused_kinds_are_named_when_loaded(tmp_path: Path) -> None:
    for name, words in (
        ("T5", "this t5 is an encoder-decoder"),
        ("BERT", "this model is not causal"),
    ):
        assert words in refusal(BY_NAME[name], tmp_path / name)


def test_an_encoder_that_decodes_is_causal(tmp_path: Path) -> None:
    decoder = replace(BY_NAME["BERT"], changes={"is_decoder": True})
    model = Folder.of(decoder, tmp_path).load()
    assert read(model, [model], many=False) < CLOSE
    model.inner.config.is_decoder = False  # put back: what it predicts looks ahead
    for part in model.inner.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
    with pytest.raises(UsageError, match="not causal"):
        check_causal(model.inner, 8, tmp_path)


def test_positions_not_from_0_are_refused(tmp_path: Path) -> None:
    """DP-SGD counts from 0; these count from the token of padding, and were trained wrongly."""
    changes = {"is_decoder": True, "pad_token_id": 1}
    for kind in ("roberta", "xlm-roberta", "camembert"):
        told = refusal(Shape(kind, kind, "", changes), tmp_path / kind)
        assert f"this {kind} does not number a text's tokens 0, 1, …" in told


@pytest.mark.parametrize("width", [1, 7])
def test_a_cache_that_is_read_wrongly_is_not_used(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Folder.of(BY_NAME["Llama"], tmp_path).load()
    inner: Any = model.inner
    real, cached = inner.forward, []

    def lost(input_ids: torch.Tensor, **named: Any) -> Any:
        """Begins to count anew after what is cached, where it reads `width` tokens."""
        cached.append(named.get("past_key_values") is not None)
        if cached[-1] and input_ids.shape[1] == width:
            named["position_ids"] = torch.arange(width).expand(input_ids.shape)
        return real(input_ids=input_ids, **named)

    assert cache_of(inner) is Cache.SHARED
    del _known[inner]
    monkeypatch.setattr(inner, "forward", lost)
    assert cache_of(inner) is (Cache.NONE if width == 1 else Cache.OWN)
    cached.clear()
    texts = [[*range(1, 40), last] for last in range(8)]
    read_by_token = model.cursor(texts)
    for token in (4, 9):
        read_by_token.append(torch.full((8,), token))
    due = torch.stack([definition(inner, [*text, 4, 9])[-1] for text in texts])
    assert float((read_by_token.log_pmf() - due).abs().max()) < CLOSE
    assert any(cached) == (width == 7)


def test_positions_that_are_scaled_anew_are_not_reached(tmp_path: Path) -> None:
    """Else a text's losses would depend on how long the longest of its batch is."""
    short = [1.0, 1.0]
    scaling = {"rope_type": "longrope", "short_factor": short, "long_factor": [9.0, 9.0]}
    stretched = {"rope_parameters": {**scaling, "rope_theta": 1e4}}
    shape = replace(BY_NAME["Phi-3"], changes={**stretched, "original_max_position_embeddings": 12})
    model = Folder.of(shape, tmp_path).load()
    assert model.max_length == 12
    text = list(range(1, 14))
    longer, there, here = (definition(model.inner, text[:n])[:8] for n in (13, 12, 8))
    assert float((there - here).abs().max()) < CLOSE < float((longer - here).abs().max())
    with pytest.raises(UsageError, match="how long the text will be"):
        check_causal(model.inner, 16, tmp_path)


def test_adapters_default_to_all_linear_layers() -> None:
    def adapted_layers(name: str) -> set[str]:
        with adapted(BY_NAME[name].make(), "all", 2, 0) as inner:
            places = {n.split(".lora_")[0] for n, _ in inner.named_parameters() if "lora_" in n}
        return {place.split(".")[-1] for place in places}

    assert adapted_layers("Llama") == {"q_proj", "v_proj"}
    attention, mlp = {f"{x}_proj" for x in "qkvo"}, {"gate_proj", "up_proj", "down_proj"}
    assert adapted_layers("Granite") == attention | mlp


def test_neither_message_sends_back_to_the_other(tmp_path: Path) -> None:
    mamba = BY_NAME["Mamba"]
    whole, adapted = (refusal(mamba, tmp_path, lambda m, r=rank: private(m, r)) for rank in (0, 2))
    assert "MambaMixer" in whole
    assert "nor can it be trained without adapters; use another model" in adapted
