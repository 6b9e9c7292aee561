"""CausalLM on the embedded model, against plain forward passes of the Hugging Face model."""

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
    torch.set_num_threads(1)
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


def test_a_batch_equals_its_texts_one_by_one(model: CausalLM, texts: list[list[int]]) -> None:
    together = model.log_pmfs(texts, [1] * len(texts))
    alone = torch.cat([model.log_pmfs([text], [1]) for text in texts])
    torch.testing.assert_close(together, alone, atol=CLOSE, rtol=0)


def test_padding_beside_a_full_context_never_changes_a_number(model: CausalLM) -> None:
    longest = (list(range(1, 300)))[: model.max_length + 1]
    short = [0, 77, 5]
    beside = model.log_pmfs([short, longest, short], [1, 1, 2])
    alone = model.log_pmfs([short], [1])
    torch.testing.assert_close(beside[:2], alone, atol=CLOSE, rtol=0)
    torch.testing.assert_close(beside[-1:], alone[1:], atol=CLOSE, rtol=0)


def test_the_last_token_is_scored_but_never_read(model: CausalLM, texts: list[list[int]]) -> None:
    text = texts[0]
    other = [*text[:-1], (text[-1] + 1) % 1024]
    assert torch.equal(model.log_pmfs([text], [1]), model.log_pmfs([other], [1]))


def test_the_cursor_reads_what_a_forward_pass_reads(
    model: CausalLM, texts: list[list[int]]
) -> None:
    cut = [text[:16] for text in texts if len(text) >= 16]
    width = min(map(len, cut))
    cut = [text[:width] for text in cut]
    assert len(cut) >= 2 and width >= 10
    cursor = model.cursor([text[:4] for text in cut])
    for place in range(4, width):
        expected = torch.stack([forward(model, text[:place])[-1] for text in cut])
        torch.testing.assert_close(cursor.log_pmf(), expected, atol=3 * CLOSE, rtol=0)
        cursor.append(torch.tensor([text[place] for text in cut]))


def test_asking_a_cursor_twice_changes_nothing(model: CausalLM) -> None:
    cursor = model.cursor([[0, 10, 20], [0, 30, 40]])
    first = cursor.log_pmf()
    torch.testing.assert_close(cursor.log_pmf(), first, atol=CLOSE, rtol=0)
    cursor.append(torch.tensor([50, 60]))
    expected = torch.stack(
        [forward(model, [0, 10, 20, 50])[-1], forward(model, [0, 30, 40, 60])[-1]]
    )
    torch.testing.assert_close(cursor.log_pmf(), expected, atol=CLOSE, rtol=0)


def test_what_does_not_fit_the_context_is_refused(model: CausalLM) -> None:
    assert model.max_length == 256
    fits = [7] * 257  # 256 are read, the last is only scored
    assert model.log_pmfs([fits], [256]).shape == (1, 1024)
    with pytest.raises(ValueError, match="258"):
        model.log_pmfs([[0, 1], [7] * 258], [1, 1])
    with pytest.raises(ValueError):
        model.log_pmfs([[0, 1]], [0])


def test_generated_tokens_are_scored_alike_by_cursor_and_forward_pass(model: CausalLM) -> None:
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


# --- what texts share is read once


def family(shared: int, children: int, grown: int) -> list[list[int]]:
    """Texts of one beginning; each two neighbours share `grown` − 1 tokens more."""
    head = [0, *np.random.default_rng(1).integers(1, 1024, size=shared - 1).tolist()]
    return [
        [*head, *[900 + i // 2] * (grown - 1), 100 + i] for i in range(children)
    ]  # neighbours differ in their last token only


@pytest.mark.parametrize(("shared", "children", "grown"), [(40, 12, 1), (40, 12, 4), (100, 2, 1)])
def test_siblings_in_a_tree_are_read_as_a_forward_pass_reads_them(
    model: CausalLM, shared: int, children: int, grown: int
) -> None:
    prompts = family(shared, children, grown)
    _, read = model._shared(list(map(tuple, prompts)))
    assert read >= shared  # it is the sharing that is tested here
    cursor = model.cursor(prompts)
    for token in ([7] * children, list(range(children))):
        expected = torch.stack([forward(model, prompt)[-1] for prompt in prompts])
        torch.testing.assert_close(cursor.log_pmf(), expected, atol=3 * CLOSE, rtol=0)
        cursor.append(torch.tensor(token))
        prompts = [[*prompt, t] for prompt, t in zip(prompts, token, strict=True)]
    expected = torch.stack([forward(model, prompt)[-1] for prompt in prompts])
    torch.testing.assert_close(cursor.log_pmf(), expected, atol=3 * CLOSE, rtol=0)


def test_continuations_of_one_prompt_are_scored_as_a_forward_pass_scores_them(
    model: CausalLM,
) -> None:
    head = family(50, 1, 1)[0]
    texts = [[*head, 5, 6, 7], [*head, 5], [*head, 8, 9], [*head[:-1], 77, 78]]
    starts = [50, 51, 50, 50]
    found = model.log_pmfs(texts, starts)
    expected = [forward(model, t)[s - 1 : -1] for t, s in zip(texts, starts, strict=True)]
    torch.testing.assert_close(found, torch.cat(expected), atol=3 * CLOSE, rtol=0)


def test_prompts_that_share_nothing_are_not_cut(model: CausalLM) -> None:
    assert model._shared([(0, 1, 2), (3, 1, 2), (4, 1, 2)]) == (None, 0)
    assert model._shared([tuple(range(200))]) == (None, 0)  # nobody to share with
