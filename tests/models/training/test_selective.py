"""Selective-DPSGD: what enters a public step, what is released, and how often."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.models.lstm import Architecture, State, untrained
from audit.models.training.dp_sgd import Noise
from audit.models.training.examples import Marked
from audit.models.training.fine_tuning import Recipe
from audit.models.training.selective import (
    PublicSteps,
    noised,
    noised_loss,
    public_rows,
)
from audit.models.training.selective_as_published import turns
from tests.models.training.test_selective_releases import INDEPENDENT, PAPER, Signs, training
from tests.models.training.test_selective_releases import network as of_signs

V = 26
PUBLIC = Recipe(epochs=2, learning_rate=1e-2, batch_tokens=20, max_length=16)


def network(seed: int = 0) -> Any:
    return untrained(Architecture(V, embedding=6, hidden=5, seed=seed))


def marked(word: str) -> Marked:
    """A record from a word: small letters are public tokens, capitals private ones."""
    return Marked(tuple(ord(c.lower()) - ord("a") for c in word), tuple(c.isupper() for c in word))


RECIPE = replace(INDEPENDENT, public=PUBLIC, population=8, learning_rate=1e-2)


words = st.lists(st.tuples(st.integers(0, V - 1), st.booleans()), min_size=2, max_size=14).map(
    lambda pairs: Marked(tuple(t for t, _ in pairs), tuple(m for _, m in pairs))
)


@given(words)
def test_reset_keeps_private_tokens_out(record: Marked) -> None:
    public = [t for t, mark in zip(record.tokens, record.marks, strict=True) if not mark]
    rows = public_rows(record, 100)
    assert all(len(row) >= 2 for row in rows)
    assert sum(len(row) - 1 for row in rows) == sum(not private for private in record.pairs)
    read = iter(public)
    assert all(token in read for row in rows for token in row)  # a subsequence, in order


@given(words, st.integers(0, 1000))
def test_reset_batches_ignore_private_tokens(record: Marked, seed: int) -> None:
    draws = torch.Generator().manual_seed(seed)
    others = torch.randint(V, (len(record.tokens),), generator=draws).tolist()
    changed = Marked(
        tuple(
            o if mark else t for t, o, mark in zip(record.tokens, others, record.marks, strict=True)
        ),
        record.marks,
    )
    rest = [marked("abcDEfgh"), marked("cdefg")]
    mine, theirs = (
        PublicSteps(RECIPE, network(), [one, *rest], 3, np.random.default_rng(0))._batches
        for one in (record, changed)
    )
    assert mine == theirs


def test_noised_states_carry_no_gradient_into_private_tokens() -> None:
    """Tokens x and y occur in private runs only: what reads them is cut off."""
    model = network()
    records = [marked("abXYcdef"), marked("bcXde")]
    loss = noised_loss(model, records, Noise(1.0, 1.0), 4, np.random.default_rng(0))
    loss.backward()
    gradient = model.embedding.weight.grad
    assert gradient[[ord("x") - ord("a"), ord("y") - ord("a")]].abs().max() == 0
    assert gradient[[2, 3, 4]].abs().min(dim=1).values.min() > 0


def test_a_released_state_is_clipped_and_noised() -> None:
    rows, width = 4000, 5
    state = State(torch.full((rows, width), 3.0, requires_grad=True), torch.zeros(rows, width))
    noise = Noise(2.0, 0.5)
    kept = torch.ones(rows, dtype=torch.bool)
    kept[0] = False
    made = noised(state, noise, np.random.default_rng(1), kept)
    assert not made.h.requires_grad
    assert made.h[0].abs().max() == 0 and made.c[0].abs().max() == 0
    each = 0.5 / math.sqrt(width)  # a vector of norm C, all entries alike
    assert made.h[1:].mean().item() == pytest.approx(each, abs=0.03)
    for part, centre in ((made.h, each), (made.c, 0.0)):
        deviation = ((part[1:] - centre) ** 2).mean().sqrt().item()
        assert deviation == pytest.approx(1.0, rel=0.03)  # σ·C


@pytest.mark.parametrize("hidden", ["reset", "noise"])
def test_the_same_seed_gives_the_same_weights(hidden: str) -> None:
    records = [marked("abXcde"), marked("cdeFGhi"), marked("bcdef")]
    made = []
    for seed in (3, 3, 4):
        model = network()
        chosen = replace(RECIPE, hidden=hidden)
        public = PublicSteps(chosen, model, records, seed, np.random.default_rng(seed))
        public.until(1.0)
        made.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


# Algorithm 1


@given(words)
def test_turns_are_public_private_public(record: Marked) -> None:
    spans = turns(record)
    flat = [t for first, last in spans for t in range(first, last)]
    assert flat == list(range(len(record.tokens) - 1))
    for place, (first, last) in enumerate(spans):
        assert all(record.pairs[t] == (place % 2 == 1) for t in range(first, last))
    assert all(first < last for first, last in spans[1:])


TEXTS = ("ab1cd", "abc22de3f", "bcd")


def test_uncharged_private_runs_are_an_error() -> None:
    fits, fewer = (replace(PAPER, private_runs=runs, population=4) for runs in (2, 1))
    fits.train(of_signs(), Signs(), training(fits, TEXTS))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="2 private runs; 1 are charged"):
        fewer.train(of_signs(), Signs(), training(fewer, TEXTS))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [RECIPE, replace(RECIPE, hidden="noise"), PAPER])
def test_training_leaves_the_global_stream_alone(method: Any) -> None:
    model = of_signs()
    before = copy.deepcopy(model)
    state = torch.random.get_rng_state()
    told: list[float] = []
    method.train(model, Signs(), training(method, TEXTS), told.append)
    assert torch.equal(state, torch.random.get_rng_state())
    assert told[-1] == 1.0 and told == sorted(told)
    pairs = zip(model.parameters(), before.parameters(), strict=True)
    assert not any(torch.equal(a, b) for a, b in pairs)
