"""A head that is computed for a few positions at a time answers as the whole model does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM, Gemma2Config, Gemma2ForCausalLM

from audit.core.language_model import OpenSession
from audit.core.lora import Lora
from audit.models import head
from audit.models.adapters import freeze, fresh
from audit.models.head import head_for
from audit.models.lstm import Architecture, untrained
from audit.models.training import fine_tuning
from audit.models.training.fine_tuning import next_token_loss
from tests.models.alike import EXACT, VOCABULARY, check_log_pmfs, gpt2, lm

AT_ONCE = 4 * VOCABULARY
SIZES = {
    **{"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
    **{
        "max_position_embeddings": 80,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "initializer_range": 0.3,
    },
}
ROWS = [[0, 5, 3, 8, 8, 2, 0], [0, 9], [0, 1, ~4, ~7, 11, 6], [0, ~2, 12, 12]]


def capped() -> Any:
    torch.manual_seed(0)
    config = Gemma2Config(**SIZES, head_dim=8, final_logit_softcapping=2.0, sliding_window=4)
    return Gemma2ForCausalLM(config).double().eval()


def scaled() -> Any:
    torch.manual_seed(0)
    return CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.3)).double().eval()


MODELS: dict[str, Callable[[], Any]] = {"tied": gpt2, "capped": capped, "scaled": scaled}


@pytest.fixture
def seen(in_parts: Callable[[int], list[int]]) -> list[int]:
    """Positions that the head is computed for at once, of every call."""
    return in_parts(AT_ONCE)


@pytest.mark.parametrize("kind", MODELS)
def test_scores_in_parts_are_the_models_own(kind: str, seen: list[int], few: None) -> None:
    shared = [0, 4, 9, 2, 2, 7, 1, 3]
    texts = [[*shared, 5, 6], [*shared, 5, 11, 12, 0], [*shared, 1], shared]
    model = lm(MODELS[kind]())
    close = 1e-6 if kind.endswith("capped") else EXACT  # the cap is computed in single precision
    check_log_pmfs([model], texts, [3, 7, 8, 2], close)
    assert max(seen) <= 4 and sum(seen) >= 7 + 5 + 1 + 6

    def scored() -> list[Any]:
        heads, tails = [text[:3] for text in texts], [text[3:] for text in texts]
        return OpenSession(model, np.random.default_rng(0)).score(heads, tails, moments=True)

    found = scored()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head, "AT_ONCE", 1 << 26)
        for one, other in zip(found, scored(), strict=True):
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-10)
            np.testing.assert_allclose(one.moments, other.moments, atol=1e-5)
            assert one.top1.tolist() == other.top1.tolist() and one.answered == other.answered


@pytest.mark.parametrize("kind", MODELS)
def test_loss_and_gradients_in_parts_are_autograds(
    kind: str, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # losses in float64, too
    model = MODELS[kind]()
    found, mine = _descended(model)
    assert max(seen[1:]) <= 4  # the first call tries the model
    monkeypatch.setattr(fine_tuning, "head_for", lambda *_: None)
    expected, theirs = _descended(model)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    with torch.no_grad():
        monkeypatch.undo()
        monkeypatch.setattr(head, "AT_ONCE", AT_ONCE)
        torch.testing.assert_close(
            next_token_loss(model, ROWS).double(), expected, atol=1e-6, rtol=0
        )


def _descended(model: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    loss = next_token_loss(model, ROWS)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_a_held_head_is_held_again(seen: list[int]) -> None:
    inner = gpt2().bfloat16()
    freeze(inner)
    model = fresh(inner, Lora(2, 4))
    table = inner.lm_head.weight
    next_token_loss(model, ROWS).backward()  # type: ignore[no-untyped-call]
    assert seen and inner.lm_head.weight is table and table.dtype == torch.bfloat16
    assert inner.transformer.wte.weight is table


def test_what_has_no_trunk_is_read_whole(seen: list[int]) -> None:
    assert head_for(untrained(Architecture(VOCABULARY)), 9) is None

    class Echo(type(gpt2())):  # type: ignore[misc]
        """Looks at the tokens once more after its trunk."""

        def forward(self, input_ids: torch.Tensor, **named: Any) -> Any:
            answer = super().forward(input_ids=input_ids, **named)
            answer.logits = answer.logits + input_ids[:, :, None]
            return answer

    model = gpt2()
    assert head_for(model, 9) is not None
    model.__class__ = Echo
    head._known.clear()
    assert head_for(model, 9) is None


def test_few_logits_are_made_at_once() -> None:
    model = gpt2()
    assert head_for(model, head.AT_ONCE // VOCABULARY) is None
    assert head_for(model, head.AT_ONCE // VOCABULARY + 1) is not None
