"""Keys and values shared between contexts: every distribution as if each were read by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core.ensemble import Mean, Separate
from audit.models.causal import CausalLM
from audit.models.ensembles.batching import batched
from tests.models.alike import (
    KINDS,
    MANY,
    VOCABULARY,
    asked,
    check_cursor,
    check_log_pmfs,
    gpt2,
    lm,
    members,
    next_ones,
    same,
    tokens,
)  # fmt: skip

LENGTH = 48


def another(seed: int) -> CausalLM:
    return lm(gpt2(seed, n_positions=LENGTH, n_layer=2))


@pytest.fixture(scope="module")
def model() -> CausalLM:
    return another(0)


class Read:
    """How many tokens the model reads, and in how many passes."""

    def __init__(self, model: CausalLM) -> None:
        self.tokens = self.passes = 0
        self._hook = model.inner.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, args: Any, kwargs: Any) -> None:
        self.tokens += kwargs["input_ids"].numel()
        self.passes += 1

    def __enter__(self) -> Read:
        return self

    def __exit__(self, *failed: object) -> None:
        self._hook.remove()


def tree(depth: int, branches: int, start: Sequence[int] = (0,)) -> list[tuple[int, ...]]:
    """All leaves of a tree under one start."""
    leaves = [tuple(start)]
    for _ in range(depth):
        leaves = [(*leaf, 1 + b) for leaf in leaves for b in range(branches)]
    return leaves


@st.composite
def prompts_of_a_tree(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Equally long prompts, each of which leaves an earlier one at a random place."""
    length = draw(st.integers(1, 12))
    prompts = [tuple(draw(st.lists(tokens, min_size=length, max_size=length)))]
    for _ in range(draw(st.integers(0, 30))):
        other = draw(st.sampled_from(prompts))
        cut = draw(st.integers(0, length))
        rest = draw(st.lists(tokens, min_size=length - cut, max_size=length - cut))
        prompts.append((*other[:cut], *rest))
    return draw(st.permutations(prompts))


# cursors


@MANY
@given(st.sampled_from(("one", *KINDS)), prompts_of_a_tree(), st.data())
def test_a_cursor_reads_any_prompts_as_alone(
    few: None, kind: str, prompts: list[tuple[int, ...]], data: st.DataObject
) -> None:
    columns = st.lists(tokens, min_size=len(prompts), max_size=len(prompts))
    check_cursor(members(kind), prompts, data.draw(st.lists(columns, max_size=3)))


def numbers(seed: int, *shape: int) -> list[Any]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, shape).tolist()


def test_a_cursor_reads_trees_and_twins(model: CausalLM, few: None) -> None:
    for depth, branches in ((2, 10), (6, 2), (20, 1)):
        leaves = tree(depth, branches, (0, 11, 12, 5))
        order = np.random.default_rng(0).permutation(len(leaves))
        check_cursor([model], [leaves[i] for i in order])
    check_cursor([model], [numbers(1, LENGTH)])
    check_cursor([model], [numbers(2, 30)] * 60, numbers(3, 3, 60))


@pytest.mark.parametrize("kind", ["one", "top:1"])
def test_two_cursors_do_not_share_what_they_append(kind: str, few: None) -> None:
    prompts, of = tree(2, 5, (0, 5)), members(kind)
    one, other = (asked(of).cursor(prompts) for _ in range(2))
    assert torch.equal(one.log_pmfs(), one.log_pmfs())
    for token in (3, 4):
        one.append(torch.full((25,), token))
        other.append(torch.full((25,), token + 1))
        one.log_pmfs()
    same(one.log_pmfs(), next_ones(of, [[*p, 3, 4] for p in prompts]))
    same(other.log_pmfs(), next_ones(of, [[*p, 4, 5] for p in prompts]))


# whole texts


@MANY
@given(st.sampled_from(("one", *KINDS)), st.data())
def test_ragged_texts_are_scored_as_alone(few: None, kind: str, data: st.DataObject) -> None:
    shared = data.draw(st.lists(tokens, max_size=12))
    texts, starts = [], []
    for _ in range(data.draw(st.integers(1, 12))):
        own = data.draw(st.lists(tokens, min_size=2, max_size=8))
        texts.append([*shared, *own])
        starts.append(data.draw(st.integers(1, len(texts[-1]) - 1)))
    check_log_pmfs(members(kind), texts, starts)


def test_texts_after_shared_starts_are_scored_alone(model: CausalLM, few: None) -> None:
    prompt, text, shared = numbers(5, 25), numbers(6, 30), numbers(7, 30)
    for n in (1, 2, 40):
        tails = [numbers(8 + i, 1 + i % 5) for i in range(n)]
        check_log_pmfs([model], [[*prompt, *tail] for tail in tails], [25] * n)
    check_log_pmfs([model], [text] * 5, [29] * 5)
    check_log_pmfs([model], [text] * 70, [29 - i % 3 for i in range(70)])
    longest = [[*shared, *numbers(9, n)] for n in (LENGTH + 1 - 30, 1, 7)]
    check_log_pmfs([model], longest, [30, 30, 31])
    check_log_pmfs([model], [prompt, [*prompt, 1, 2], prompt], [25] * 3)  # nothing asked of two


# what it is for


def test_siblings_cost_a_token_each(model: CausalLM) -> None:
    with Read(model) as read:
        model.cursor(tree(3, 10, (0, 11, 12))).log_pmf()
    assert read.tokens == 1000 + 100 + 10 * 4  # ten beginnings are not worth another pass
    with Read(model) as read:
        model.log_pmfs([[*range(12), *range(12), i] for i in range(10)] * 5, [24] * 50)
    assert read.tokens == 23 + 50


def test_what_shares_nothing_is_read_in_one_pass(model: CausalLM) -> None:
    prompts = [[i, *range(8)] for i in range(VOCABULARY)]
    with Read(model) as read:
        check = model.cursor(prompts).log_pmf()
    assert (read.passes, read.tokens) == (1, 9 * VOCABULARY)
    same(check, next_ones([model], prompts)[:, 0])


def test_keys_and_values_of_a_token_are_counted(model: CausalLM) -> None:
    cache = model.inner(input_ids=torch.zeros(1, 5, dtype=torch.long), use_cache=True)
    layers = cache.past_key_values.layers
    assert sum(layer.keys.numel() + layer.values.numel() for layer in layers) == 5 * model.kept
    three = batched([model, another(1), another(2)])
    assert three.count == 3 and three.kept == Mean(three).kept == 3 * model.kept
    assert Separate([model, model]).kept == 2 * model.kept
