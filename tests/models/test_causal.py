"""CausalLM on the embedded model; test_causal_sharing.py has all ways to read, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.core.predictor import record_tokens
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights

CLOSE = 1e-5  # nats; float32 logits
TEXTS = (
    "My code is #83914.",
    "Hello! My order 20931 has not come yet, and nobody answers the telephone.",
    "a",
    "Thank you, and a good day to you. " * 6,
)


@pytest.fixture(scope="module")
def model() -> CausalLM:
    folder = describe("embedded", EMBEDDED_FOLDER)
    inner = load_weights(folder, "cpu")
    return CausalLM(inner, load_tokenizer(folder), folder.max_length)


@pytest.fixture(scope="module")
def texts(model: CausalLM) -> list[list[int]]:
    return [record_tokens(model.tokenizer, text) for text in TEXTS]


def forward(model: CausalLM, text: list[int]) -> torch.Tensor:
    """Shape (len(text), V), nats: after each token, from one unpadded pass."""
    with torch.inference_mode():
        logits = model.inner(torch.tensor([text])).logits[0]
    return logits.double() - logits.double().logsumexp(dim=-1, keepdim=True)


def test_distributions_equal_a_plain_forward_pass(model: CausalLM, texts: list[list[int]]) -> None:
    starts = [1, 5, 1, 40]
    found = model.log_pmfs(texts, starts)
    expected = [forward(model, t)[s - 1 : -1] for t, s in zip(texts, starts, strict=True)]
    assert found.dtype == torch.float64
    assert found.shape == (sum(len(t) - s for t, s in zip(texts, starts, strict=True)), 1024)
    torch.testing.assert_close(found, torch.cat(expected), atol=CLOSE, rtol=0)
    np.testing.assert_allclose(found.exp().sum(dim=1).numpy(), 1.0, atol=1e-12)


def test_the_last_token_is_scored_but_never_read(model: CausalLM, texts: list[list[int]]) -> None:
    text = texts[0]
    other = [*text[:-1], (text[-1] + 1) % 1024]
    assert torch.equal(model.log_pmfs([text], [1]), model.log_pmfs([other], [1]))


def test_what_does_not_fit_the_context_is_refused(model: CausalLM) -> None:
    assert model.max_length == 256
    fits = [7] * 257  # 256 are read, the last is only scored
    assert model.log_pmfs([fits], [256]).shape == (1, 1024)
    with pytest.raises(ValueError, match="258"):
        model.log_pmfs([[0, 1], [7] * 258], [1, 1])
    with pytest.raises(ValueError):
        model.log_pmfs([[0, 1]], [0])


def test_generated_tokens_are_scored_alike(model: CausalLM) -> None:
    prompts = [[0, 5], [0], [0, 9], [0, 3, 4], [0]]
    session = OpenSession(model, np.random.default_rng(1))
    generated = session.generate(prompts, 8)
    scored = session.score(prompts, [list(answer.tokens) for answer in generated])
    for one, other in zip(generated, scored, strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=CLOSE)


def test_generation_does_not_depend_on_the_batch_size(model: CausalLM) -> None:
    prompts = [[0, 5], [0], [0, 9], [0, 3, 4], [0], [0, 8], [0]]
    seen = [
        [
            a.tokens
            for a in OpenSession(model, np.random.default_rng(4), batch=b).generate(prompts, 6)
        ]
        for b in (1, 2, 128)
    ]
    assert seen[0] == seen[1] == seen[2]
