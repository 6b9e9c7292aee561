"""Families that transformers has: what an audit reads equals the model's own forward pass.

Tiny random models, saved, loaded as `as_is` loads them, and asked as attacks ask: several texts
padded together, one alone, from prefixes that are shared, and token by token. What is refused, and
why, stands in test_shapes.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.models.cached import Cache, cache_of
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights

CLOSE = 1e-4  # nats
CONTEXT, VOCABULARY = 96, 1024
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}
HEADS = {"head_dim": 8}
SLIDING = {**HEADS, "sliding_window": 8}
EXPERTS = {
    **{"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
}
LINEAR = {
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 8, "linear_value_head_dim": 8},
    "layer_types": ["linear_attention", "full_attention"],
}
MAMBA = {"mamba_d_state": 4, "mamba_d_head": 8, "mamba_n_heads": 8, "mamba_n_groups": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "bloom": {"n_layer": 2, "n_head": 4},
    "codegen": {**GPT, "rotary_dim": 4},
    "cohere": {},
    "exaone4": SLIDING,
    "falcon": {},
    "gemma": HEADS,
    "gemma2": SLIDING,
    "gemma3_text": SLIDING,
    "glm4": HEADS,
    "gpt2": GPT,
    "gpt_bigcode": GPT,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4},
    "gpt_neox": {},
    "gptj": {**GPT, "rotary_dim": 4},
    "granite": {},
    "llama": {},
    "mistral": SLIDING,
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": CONTEXT},
    "nemotron": {},
    "olmo": {},
    "olmo2": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "phi": {},
    "phi3": {},
    "qwen2": {},
    "qwen3": HEADS,
    "smollm3": {},
    "stablelm": {},
    "starcoder2": {"sliding_window": None},
    # mixtures of experts
    "gpt_oss": {**EXPERTS, **SLIDING},
    "granitemoe": EXPERTS,
    "mixtral": EXPERTS,
    "olmoe": EXPERTS,
    "qwen2_moe": {**EXPERTS, "decoder_sparse_step": 1},
    "qwen3_moe": {**EXPERTS, **HEADS},
    # state spaces, linear attention, and both beside attention
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "falcon_h1": {**MAMBA, **HEADS, "mamba_d_ssm": 64},
    "jamba": {
        **{**EXPERTS, **MAMBA, "use_mamba_kernels": False},
        **{"attn_layer_period": 2, "attn_layer_offset": 1},
        **{"expert_layer_period": 2, "expert_layer_offset": 1},
    },
    "lfm2": {"block_ff_dim": 48, "layer_types": ["conv", "full_attention"]},
    "mamba": {"state_size": 4},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 4, "n_groups": 1},
    "minimax": {**EXPERTS, **HEADS, "layer_types": LINEAR["layer_types"], "block_size": 16},
    "qwen3_next": {**EXPERTS, **HEADS, **LINEAR},
    "recurrent_gemma": {
        **{"lru_width": 32, "attention_window_size": 16, "conv1d_width": 4},
        "block_types": ["recurrent", "attention"],
    },
    "rwkv": {"attention_hidden_size": 32, "context_length": CONTEXT},
}
CACHES = {  # the others go on from beginnings that texts share
    "bamba": Cache.NONE,
    "falcon_h1": Cache.OWN,
    "jamba": Cache.OWN,
    "lfm2": Cache.OWN,
    "minimax": Cache.NONE,
    "qwen3_next": Cache.OWN,
}
SMALL = ("lfm2", "minimax", "mixtral", "mamba")  # of each kind one, in the default suite
EVERY = [pytest.param(kind, marks=() if kind in SMALL else pytest.mark.slow) for kind in FAMILIES]


def folder_of(kind: str, place: Path) -> Path:
    config = AutoConfig.for_model(kind, **{**SIZES, **FAMILIES[kind]})
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(config)
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.2, generator=generator)
    folder = place / kind
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED_FOLDER / "public_model" / name, folder)
    return folder


def loaded(folder: Path) -> CausalLM:
    described = describe(str(folder), EMBEDDED_FOLDER)
    return CausalLM(load_weights(described, "cpu"), load_tokenizer(described), 64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", EVERY)
def test_what_is_read_is_the_models_own_pass(kind: str, tmp_path: Path) -> None:
    model = loaded(folder_of(kind, tmp_path))
    stream = torch.Generator().manual_seed(2)
    head = torch.randint(VOCABULARY, (20,), generator=stream).tolist()
    tails = [torch.randint(VOCABULARY, (n,), generator=stream).tolist() for n in (25, 4, 11, 1)]
    texts = [head + tail for tail in tails]

    def own(text: list[int]) -> torch.Tensor:
        """Shape (len(text), V), nats: after each token."""
        with torch.inference_mode():
            logits = model.inner(input_ids=torch.tensor([text]), use_cache=False).logits[0]
        return logits.double().log_softmax(dim=-1)

    def close(found: torch.Tensor, expected: torch.Tensor) -> None:
        torch.testing.assert_close(found, expected, atol=CLOSE, rtol=0)

    for starts in ([1] * 4, [20, 21, 25, 20]):
        due = [own(t)[s - 1 : -1] for t, s in zip(texts, starts, strict=True)]
        alone = [model.log_pmfs([t], [s]) for t, s in zip(texts, starts, strict=True)]
        close(model.log_pmfs(texts, starts), torch.cat(due))
        close(torch.cat(alone), torch.cat(due))
    prompts = [[*head, i] for i in range(8)]  # what they share is read once, where that is exact
    cursor = model.cursor(prompts)
    for column in (tails[0][:8], tails[0][8:16]):
        close(cursor.log_pmf(), torch.stack([own(prompt)[-1] for prompt in prompts]))
        cursor.append(torch.tensor(column))
        prompts = [[*prompt, token] for prompt, token in zip(prompts, column, strict=True)]
    close(cursor.log_pmf(), torch.stack([own(prompt)[-1] for prompt in prompts]))
    assert cache_of(model.inner) is CACHES.get(kind, Cache.SHARED)
    session = OpenSession(model, np.random.default_rng(0))
    (answer,) = session.generate([head], 6)
    (scored,) = session.score([head], [answer.tokens])
    np.testing.assert_allclose(answer.log_probs, scored.log_probs, atol=CLOSE)
