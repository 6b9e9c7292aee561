"""Small models with opinions, and checks that however they are asked, each answers as alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

from audit.core.ensemble import Ensemble, Separate
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import Stacked, batched

EXACT = 1e-10  # nats, in float64: whatever is larger is no rounding
VOCABULARY = 13
MANY = settings(
    max_examples=settings().max_examples // 2,  # each runs a model
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
Texts = Sequence[Sequence[int]]
tokens = st.integers(0, VOCABULARY - 1)


def gpt2(seed: int = 0, **changes: Any) -> Any:
    """A model in which every token before it moves a distribution, in float64."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 80, "n_embd": 16, "n_layer": 3, "n_head": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**{**sizes, **ids, "initializer_range": 0.5, **changes})
    return GPT2LMHeadModel(config).double().eval()


def lm(model: Any) -> CausalLM:
    return CausalLM(model, None, model.config.max_position_embeddings)  # type: ignore[arg-type]


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
