"""Small models with opinions, and checks that however they are asked, each answers as alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from audit.core.ensemble import Ensemble, Separate
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import Stacked, batched

EXACT = 1e-10  # nats, in float64: whatever is larger is no rounding
VOCABULARY = 13
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = ("all", "top:1", "top:2", "head", "embedding", "norm", "a bias", "equal", "with public")
Texts = Sequence[Sequence[int]]
tokens = st.integers(0, VOCABULARY - 1)


def gpt2(seed: int = 0, **changes: Any) -> Any:
    """A model in which every token before it moves a distribution, in float64."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 80, "n_embd": 16, "n_layer": 3, "n_head": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**{**sizes, **ids, "initializer_range": 0.5, **changes})
    return GPT2LMHeadModel(config).double().eval()


def llama(**changes: Any) -> Any:
    """As `gpt2`, with RMSNorm and grouped queries, in float32."""
    torch.manual_seed(5)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 0, "max_position_embeddings": 80}
    config = LlamaConfig(**{**sizes, **heads, **ids, "initializer_range": 0.5, **changes})
    return LlamaForCausalLM(config).eval()


def weights(model: Any) -> torch.Tensor:
    """All weights, one after the other."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def lm(model: Any) -> CausalLM:
    return CausalLM(model, None, model.config.max_position_embeddings)  # type: ignore[arg-type]


def moved(base: GPT2LMHeadModel, names: str, seed: int) -> GPT2LMHeadModel:
    """A copy whose weights of these names are others."""
    model, draw = copy.deepcopy(base), torch.Generator().manual_seed(seed)
    hit = 0
    for name, parameter in model.named_parameters():
        if any(part in name for part in names.split()):
            noise = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
            parameter.data += 0.3 * noise
            hit += 1
    assert hit
    return model


@cache
def members(kind: str) -> tuple[CausalLM, ...]:
    """One model, or models of which some weights or all are others."""
    if kind == "one":
        return (lm(gpt2()),)
    base = gpt2(tie_word_embeddings=kind != "head")
    names = {
        "all": "wte wpe h. ln_f",
        "top:1": "h.2.",
        "top:2": "h.1. h.2.",
        "head": "lm_head",
        "embedding": "wpe",
        "norm": "ln_f.weight",
        "a bias": "h.1.mlp.c_fc.bias",
        "equal": "",
        "with public": "h.2.",
    }[kind]
    if kind == "equal":
        return (lm(base), lm(copy.deepcopy(base)), lm(base))
    others = [lm(moved(base, names, seed)) for seed in range(4)]
    if kind == "with public":  # parts without texts are the public model itself, or its equal
        return (others[0], lm(base), others[1], lm(copy.deepcopy(base)), others[0], lm(base))
    return tuple(others)


def stacked(of: Sequence[Any]) -> Stacked:
    ensemble = batched(of)
    assert isinstance(ensemble, Stacked)
    return ensemble


def asked(of: Sequence[CausalLM]) -> Ensemble:
    return stacked(of) if len(of) > 1 else Separate(of)


def plain(of: Sequence[CausalLM], text: Sequence[int]) -> torch.Tensor:
    """Shape (len(text), m, V), nats: after each token, from one pass of each model alone."""
    return _passes(of, [text])[0]


def next_ones(of: Sequence[CausalLM], texts: Texts) -> torch.Tensor:
    """Shape (n, m, V): after texts of one length."""
    return _passes(of, texts)[:, -1]


def _passes(of: Sequence[CausalLM], texts: Texts) -> torch.Tensor:
    with torch.inference_mode():
        ids = torch.tensor([list(text) for text in texts])
        logits = [model.inner(ids, use_cache=False).logits.double() for model in of]
    found = torch.stack(logits, dim=2)
    return found - found.logsumexp(dim=-1, keepdim=True)


def same(found: torch.Tensor, expected: torch.Tensor, close: float = EXACT) -> None:
    assert found.dtype == torch.float64 and found.shape == expected.shape
    torch.testing.assert_close(found, expected, atol=close, rtol=0)


def check_cursor(
    of: Sequence[CausalLM], prompts: Texts, appended: Texts = (), close: float = EXACT
) -> None:
    cursor, texts = asked(of).cursor(prompts), [list(prompt) for prompt in prompts]
    same(cursor.log_pmfs(), next_ones(of, texts), close)
    for column in appended:
        cursor.append(torch.tensor(column))
        for text, token in zip(texts, column, strict=True):
            text.append(token)
        same(cursor.log_pmfs(), next_ones(of, texts), close)


def check_log_pmfs(
    of: Sequence[CausalLM], texts: Texts, starts: Sequence[int], close: float = EXACT
) -> None:
    expected = [plain(of, t[:-1])[s - 1 :] for t, s in zip(texts, starts, strict=True)]
    same(asked(of).log_pmfs(texts, starts), torch.cat(expected), close)
