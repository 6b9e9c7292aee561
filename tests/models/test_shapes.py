"""Every shape of model is exact or refused, and the page in the docs says which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models.cached import Cache, cache_of
from audit.models.causality import check_causal
from audit.models.loading import describe
from audit.models.training import layer_rules
from audit.models.training.dp_sgd import NoisySum, adapted
from audit.models.training.gradient_factors import Outer, Use, Whole
from audit.models.training.layer_rules import Rule
from tests.models.shapes import (
    BY_NAME,
    CLOSE,
    CONTEXT,
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


@pytest.mark.parametrize(
    "name",
    ["Llama", "OPT", *(pytest.param(n, marks=pytest.mark.slow) for n in ("Gemma 2", "CTRL"))],
)
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


def keys_of_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared key's gradient from one of its two queries."""

    def narrow(module: nn.Linear, a: torch.Tensor, g: torch.Tensor) -> dict[str, Use]:
        return {"weight": Outer(g / 2 if module.out_features < module.in_features else g, a)}

    monkeypatch.setitem(layer_rules.RULES, nn.Linear, Rule(narrow))


def unscaled_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(module: Any, a: torch.Tensor, g: torch.Tensor) -> dict[str, Use]:
        return layer_rules._embedding(module, (a[..., 1] / a[..., 0]).round().long(), g)

    monkeypatch.setattr(layer_rules, "_LOOKUP", Rule(plain, layer_rules._places))


TRAPS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "RMSNorm without its norm": ("Llama", without_the_norm),
    "RMSNorm without a gradient": ("Llama", without_the_gradient_of_gains),
    "grouped queries counted once": ("Llama", keys_of_one_query),
    "a scaled embedding without its scale": ("Gemma", unscaled_table),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_put_back_is_seen(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, put = TRAPS[trap]
    folder = Folder.of(BY_NAME[name], tmp_path)
    assert private(folder.load(), 0) < CLOSE
    put(monkeypatch)
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


# --- further families, of which only the reading is measured

HEADS = {"head_dim": 4}
SLIDING = {**HEADS, "sliding_window": 4}
EXPERTS = {
    **{"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
}
LINEAR = {
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 4, "linear_value_head_dim": 4},
    "layer_types": ["linear_attention", "full_attention"],
}
MAMBA = {"mamba_d_state": 4, "mamba_d_head": 4, "mamba_n_heads": 8, "mamba_n_groups": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "codegen": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "rotary_dim": 4},
    "exaone4": SLIDING,
    "glm4": HEADS,
    "gpt_bigcode": {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4},
    "mpt": {"d_model": 16, "n_heads": 4, "n_layers": 2, "max_seq_len": CONTEXT},
    "nemotron": {},
    "olmo": {},
    "stablelm": {},
    # mixtures of experts
    "gpt_oss": {**EXPERTS, **SLIDING},
    "granitemoe": EXPERTS,
    "olmoe": EXPERTS,
    "qwen2_moe": {**EXPERTS, "decoder_sparse_step": 1},
    "qwen3_moe": {**EXPERTS, **HEADS},
    # state spaces, linear attention, and both beside attention
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "falcon_h1": {**MAMBA, **HEADS, "mamba_d_ssm": 32},
    "jamba": {
        **{**EXPERTS, **MAMBA, "use_mamba_kernels": False},
        **{"attn_layer_period": 2, "attn_layer_offset": 1},
        **{"expert_layer_period": 2, "expert_layer_offset": 1},
    },
    "lfm2": {"block_ff_dim": 24, "layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 4, "state_size": 4, "n_groups": 1},
    "minimax": {**EXPERTS, **HEADS, "layer_types": LINEAR["layer_types"], "block_size": 16},
    "qwen3_next": {**EXPERTS, **HEADS, **LINEAR},
    "recurrent_gemma": {
        **{"lru_width": 16, "attention_window_size": 16, "conv1d_width": 4},
        "block_types": ["recurrent", "attention"],
    },
    "rwkv": {"attention_hidden_size": 16, "context_length": CONTEXT},
}
CACHES = {  # the others go on from beginnings that texts share
    "bamba": Cache.NONE,
    "falcon_h1": Cache.OWN,
    "jamba": Cache.OWN,
    "lfm2": Cache.OWN,
    "mamba2": Cache.NONE,
    "minimax": Cache.NONE,
    "qwen3_next": Cache.OWN,
    "recurrent_gemma": Cache.NONE,
    "rwkv": Cache.NONE,
}
SMALL = ("lfm2", "minimax", "olmoe", "mamba2")  # of each kind one, in the default suite
EVERY = [pytest.param(kind, marks=() if kind in SMALL else pytest.mark.slow) for kind in FAMILIES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", EVERY)
def test_a_family_is_read_as_its_own_pass(kind: str, tmp_path: Path) -> None:
    model = Folder.of(
        Shape(kind, kind, "", {"num_hidden_layers": 2, **FAMILIES[kind]}), tmp_path
    ).load()
    assert read(model, [model], many=False) < CLOSE
    assert cache_of(model.inner) is CACHES.get(kind, Cache.SHARED)


def test_no_family_is_measured_twice() -> None:
    assert not FAMILIES.keys() & {shape.kind for shape in SHAPES}
