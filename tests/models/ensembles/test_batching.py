"""Stacked members: every distribution as if each member were asked by itself."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel, GPTNeoConfig, GPTNeoForCausalLM

from audit.core.ensemble import Ensemble, Separate
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import Stacked, batched
from audit.models.ensembles.stacked_gpt2 import Past, Stack
from audit.models.lstm import Architecture, untrained
from tests.models.alike import (
    VOCABULARY,
    check_cursor,
    check_log_pmfs,
    gpt2,
    lm,
    members,
    moved,
    next_ones,
    same,
    stacked,
)

LENGTH = 80

CLOSE = 2e-5  # nats, in float32


def drawn(seed: int, *shape: int, most: int = VOCABULARY) -> list[Any]:
    return np.random.default_rng(seed).integers(0, most, shape).tolist()


# texts and cursors; tests/models/test_causal_sharing.py reads any texts and prompts


def test_appending_goes_on_to_the_end() -> None:
    """Keys and values move to a larger place twice on the way."""
    check_cursor(members("with public"), drawn(0, 3, 4), drawn(1, LENGTH - 4, 3))


@pytest.mark.parametrize("kind", ["all", "top:1", "embedding"])
def test_a_longer_context_than_the_models_is_refused(kind: str) -> None:
    text, of = drawn(2, LENGTH + 1), members(kind)
    check_log_pmfs(of, [text], [1])
    check_cursor(of, [text[:LENGTH]])
    for scored, start in (([*text, 1], 1), ([*text, 1], LENGTH + 1), ([1], 0)):
        with pytest.raises(ValueError, match="cannot score"):
            stacked(of).log_pmfs([scored], [start])
    cursor = stacked(of).cursor([text[:LENGTH]])
    cursor.append(torch.tensor([1]))
    with pytest.raises(IndexError):
        cursor.log_pmfs()


# which members are which


def test_members_keep_their_order() -> None:
    of = members("with public")
    turned = [of[i] for i in (3, 0, 5, 2, 1, 4)]
    text = drawn(3, 9)
    expected = torch.stack([model.log_pmfs([text], [2]) for model in turned], dim=1)
    same(stacked(turned).log_pmfs([text], [2]), expected)
    assert stacked(turned).places == (0, 1, 0, 2, 0, 1)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_pytorch_tanh", "gelu"])
@pytest.mark.parametrize("tied", [True, False])
def test_other_shapes(activation: str, tied: bool) -> None:
    changes: Any = {"n_inner": 24, "n_head": 4, "layer_norm_epsilon": 0.1}
    models = [
        gpt2(i, tie_word_embeddings=tied, activation_function=activation, **changes)
        for i in range(2)
    ]
    of = [lm(moved(model, "h.1.ln_", i)) for i, model in enumerate(models)]
    check_log_pmfs(of, drawn(4, 3, 20), [1, 5, 19])


def test_float32_is_close(few: None) -> None:
    of = [lm(copy.deepcopy(m.inner).float()) for m in members("top:2")]
    check_cursor(of, drawn(5, 6, 7, most=3), drawn(6, 9, 6), CLOSE)
    check_log_pmfs(of, drawn(7, 4, 40), [1, 9, 39, 20], CLOSE)


# what it is for


def rows(ensemble: Stacked) -> list[int]:
    """How many members' rows go through each block: of the keys and values it keeps."""
    past = Past()
    with torch.inference_mode():
        stack: Any = ensemble.inner.inner
        stack(torch.zeros(1, 2, dtype=torch.long), past_key_values=past)
    return [block.shape[1] for block in past._blocks]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("all", [4, 4, 4]),
        ("top:1", [1, 1, 4]),
        ("top:2", [1, 4, 4]),
        ("a bias", [1, 1, 4]),
        ("norm", [1, 1, 1]),
        ("head", [1, 1, 1]),
        ("equal", [1, 1, 1]),
        ("with public", [1, 1, 3]),
    ],
)
def test_what_members_share_is_computed_once(kind: str, expected: list[int]) -> None:
    assert rows(stacked(members(kind))) == expected
    if kind == "top:1":  # shared weights are the members' own tensors, in no second place
        ensemble, first = stacked(members(kind)), members(kind)[0].inner
        stack: Any = ensemble.inner.inner
        assert stack._tokens.data_ptr() == first.transformer.wte.weight.data_ptr()
        assert stack._head.data_ptr() == first.lm_head.weight.data_ptr()


def test_siblings_cost_a_token_each() -> None:
    leaves = [(0, 11, 12, i, j) for i in range(10) for j in range(10)]
    ensemble = stacked(members("top:1"))
    forward = Stack.__call__
    read: list[int] = []

    def counted(self: Stack, input_ids: torch.Tensor, **options: Any) -> Any:
        read.append(input_ids.numel())
        return forward(self, input_ids, **options)

    with patch.object(Stack, "__call__", counted):
        one = ensemble.cursor(leaves).log_pmfs()
        other = ensemble.log_pmfs([[*leaf, 3] for leaf in leaves], [5] * 100)
    assert sum(read) == 2 * (100 + 10 * 4)
    assert torch.equal(one, other)
    same(one, next_ones(members("top:1"), leaves))


# what is not stacked


def separate(of: Sequence[Any]) -> None:
    ensemble: Ensemble = batched(of)
    assert isinstance(ensemble, Separate) and tuple(ensemble.members) == tuple(of)


def test_unlike_or_unknown_members_are_asked_separately() -> None:
    for changes in (
        {"scale_attn_by_inverse_layer_idx": True},
        {"scale_attn_weights": False},
        {"reorder_and_upcast_attn": True},
        {"activation_function": "silu"},
        {"add_cross_attention": True},
    ):
        separate([lm(gpt2(i, **changes)) for i in range(2)])
    for changes in (
        {"n_layer": 2},
        {"n_head": 4},
        {"n_positions": 60},
        {"layer_norm_epsilon": 1e-2},
        {"activation_function": "gelu"},
        {"vocab_size": 14},
    ):
        separate([lm(gpt2(0)), lm(gpt2(1, **changes))])


def test_members_of_other_kinds_are_asked_separately(bigram: Any) -> None:
    one = members("top:1")[0]
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "bos_token_id": 0}
    config = GPTNeoConfig(
        vocab_size=VOCABULARY, max_position_embeddings=LENGTH, eos_token_id=0,
        attention_types=[[["global"], 2]], **sizes,
    )  # fmt: skip
    neo = lm(GPTNeoForCausalLM(config).double().eval())
    recurrent: Any = CausalLM(untrained(Architecture(VOCABULARY, 4, 4)), None, LENGTH)  # type: ignore[arg-type]
    for of in ([bigram(0), bigram(1)], [one, bigram(0)], [neo, neo], [one, neo]):
        separate(of)
    for of in ([recurrent, recurrent], [one, recurrent], [one]):
        separate(of)


def test_precision_tokenizer_and_mode_must_agree() -> None:
    one, other = members("top:1")[:2]
    separate([one, lm(copy.deepcopy(other.inner).float())])
    separate([one, CausalLM(other.inner, "another", LENGTH)])  # type: ignore[arg-type]
    separate([one, lm(copy.deepcopy(other.inner).train())])


def test_an_unknown_part_is_asked_separately() -> None:
    class More(GPT2LMHeadModel):
        pass

    strange = More(members("top:1")[0].inner.config).double().eval()  # type: ignore[arg-type]
    separate([lm(strange), lm(strange)])
    grown = copy.deepcopy(members("top:1")[0].inner)
    grown.transformer.h[1].attn.extra = torch.nn.Linear(16, 16)
    separate([lm(grown), lm(grown)])


def test_the_shortest_context_is_the_ensembles() -> None:
    one, other = members("top:1")[:2]
    assert batched([one, CausalLM(other.inner, None, 20)]).max_length == 20  # type: ignore[arg-type]
