"""S-DPSGD: what enters a public step, and that what is released is accounted.

schedule=twice is DP-SGD after a training on redacted text, so test_dp_sgd.py holds it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import log_softmax

from audit.core.training import Training
from audit.models.lstm import Architecture, State, untrained
from audit.models.training import selective, selective_as_published
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.examples import Marked, marked_records
from audit.models.training.fine_tuning import Recipe
from audit.models.training.selective import (
    PublicSteps,
    SelectiveRecipe,
    noised,
    noised_loss,
    public_rows,
)
from audit.models.training.selective_as_published import AlternatingRecipe, turns
from audit.policies.digits import Digits
from tests.models.alike import weights

SIGNS = "^abcdef012345"
NO_PUBLIC_STEP = Recipe(epochs=0, learning_rate=1e-2, batch_tokens=40, max_length=4)
INDEPENDENT = SelectiveRecipe(
    noise=Noise(1.0, 0.5),
    sampling_probability=0.5,
    steps=3,
    population=15,
    learning_rate=0.2,
    optimizer="sgd",
    public=NO_PUBLIC_STEP,
    hidden="reset",
    hidden_noise=Noise(2.0, 0.3),
    transitions=2,
)
PAPER = AlternatingRecipe(
    noise=Noise(1.0, 0.5),
    hidden_noise=Noise(2.0, 0.3),
    batch=2,
    epochs=2,
    private_runs=2,
    population=15,
    learning_rate=0.2,
    public_learning_rate=0.1,
    optimizer="sgd",
    max_length=99,
)
TEXTS = ("ab1cd", "0abc22de", "bcd4", "3fe", "ab51", "efa2b3cd", "a4", "fedcba0", "d1e", "bb3cc")
NEAR, FAR = 1e-5, 1e-3


@dataclass(frozen=True)
class Signs:
    """One token a sign; ^ opens and closes."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [SIGNS.index(sign) for sign in text]

    def ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))


def network(width: int = 6, scale: float = 8.0) -> Any:
    model = untrained(Architecture(len(SIGNS), embedding=width, hidden=width))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    return model


def training(method: Any, texts: Sequence[str] = TEXTS, seed: int = 5) -> Training:
    """One record a text; digits are private."""
    spans = tuple(tuple(Digits()(text)) for text in texts)
    owners = tuple(f"{i}" for i in range(len(texts)))
    return Training("s_dpsgd", tuple(texts), method, seed, owners=owners, private=spans)


def moved(model: Any, method: Any, texts: Sequence[str] = TEXTS) -> torch.Tensor:
    after = copy.deepcopy(model)
    method.train(after, Signs(), training(method, texts))
    return weights(after) - weights(model)


# --- one step is the definition


def tokens_of(text: str) -> list[int]:
    return [0, *Signs().encode(text), 0]


def kinds(text: str) -> list[bool]:
    """Whether each prediction reads or predicts a digit."""
    digit = [False, *(sign.isdigit() for sign in text), False]
    return [digit[t] or digit[t + 1] for t in range(len(text) + 1)]


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def clipped(vector: torch.Tensor, norm: float) -> torch.Tensor:
    return vector * min(1.0, norm / float(vector.norm()))


def test_private_steps_are_those_of_dp_sgd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record that holds private predictions is one example, of them alone."""
    seen: list[Any] = []
    monkeypatch.setattr(PrivateRecipe, "descend", lambda *given, **parts: seen.append(given))
    recipe = replace(INDEPENDENT, physical_tokens=72)
    one = training(recipe, ("ab1cd", "abc", "0abc22de"))
    recipe.train(network(), Signs(), one)  # type: ignore[arg-type]
    ((private, _, (examples,), same, _),) = seen
    fields = ("noise", "sampling_probability", "steps", "population", "learning_rate", "optimizer")
    assert {name: getattr(private, name) for name in fields} == {
        name: getattr(recipe, name) for name in fields
    }
    assert (private.max_length, private.physical_tokens, same) == (4, 72, one)
    records = marked_records(one, Signs())  # type: ignore[arg-type]
    assert examples == [records[i].private_example(4) for i in (0, 2)]


def runs(text: str) -> list[tuple[int, int]]:
    """[first, last) of each run of predictions: public (perhaps empty), private, public …"""
    found, t = [], 0
    for private, run in groupby(kinds(text)):
        if private and not found:
            found.append((0, 0))
        length = len(list(run))
        found.append((t, t + length))
        t += length
    return found


def algorithm_1(model: Any, recipe: AlternatingRecipe, texts: Sequence[str]) -> torch.Tensor:
    """Where one batch leads without noise: each record alone, run by run."""
    model = copy.deepcopy(model).double()
    before, zero = weights(model), torch.zeros(1, model.config.hidden, dtype=torch.float64)
    states = {text: State(zero, zero) for text in texts}
    for turn in range(max(len(runs(text)) for text in texts)):
        spans = {text: runs(text)[turn] for text in texts if turn < len(runs(text))}
        spans = {text: span for text, span in spans.items() if span[0] < span[1]}
        private, total = turn % 2 == 1, torch.zeros_like(before)
        for text, (first, last) in spans.items():
            tokens = torch.tensor(tokens_of(text)[first : last + 1])
            log_p = log_softmax(model(tokens[None, :-1], states[text]).logits[0], 1)
            loss = -log_p[range(last - first), tokens[1:]].sum()
            h, c = (s[:, -1].detach() for s in model.unroll(tokens[None, :-1], states[text]))
            if private:
                found = gradient(model, loss / (last - first))
                total += clipped(found, recipe.noise.max_norm) / recipe.batch
                h, c = (clipped(s, recipe.hidden_noise.max_norm) for s in (h, c))
            else:
                total += gradient(model, loss) / sum(last - first for first, last in spans.values())
            states[text] = State(h, c)
        rate = recipe.learning_rate if private else recipe.public_learning_rate
        step = -total * rate / 2  # the only batch of a schedule that falls to zero after it
        torch.nn.utils.vector_to_parameters(weights(model) + step, model.parameters())
    return weights(model) - before


@pytest.mark.parametrize("max_norm", [0.6, 0.01])
def test_a_batch_of_the_paper_is_algorithm_1(max_norm: float) -> None:
    """Three records in a batch of at most four: the divisor is the public four."""
    texts = ("0abc22de", "bcd", "ab1cd5")
    changes: dict[str, Any] = dict(epochs=1, batch=4, learning_rate=50 / max_norm)
    silent = replace(PAPER, noise=Noise(0.0, max_norm), hidden_noise=Noise(0.0, 0.3), **changes)
    model, expected = network(), algorithm_1(network(), silent, texts)
    assert float((moved(model, silent, texts) - expected).norm() / expected.norm()) < NEAR
    for other in (
        replace(silent, hidden_noise=Noise(0.0, 0.2)),  # so that the states do matter
        replace(silent, noise=Noise(0.0, max_norm / 1.01)),
        replace(silent, public_learning_rate=0.09),
    ):
        gap = algorithm_1(model, other, texts) - expected
        assert float(gap.norm() / expected.norm()) > FAR


def test_a_noised_state_enters_the_public_loss_clipped() -> None:
    """Written out without noise, one record at a time; the second state of a record is zero."""
    texts, model = ("ab1cd2ef", "ab3cd"), network()
    nlls = []
    for text in texts:
        zero = torch.zeros(1, model.config.hidden)
        state, released = State(zero, zero), 0
        for turn, (first, last) in enumerate(runs(text)):
            tokens = torch.tensor(tokens_of(text)[first : last + 1])
            log_p = log_softmax(model(tokens[None, :-1], state).logits[0], 1)
            h, c = (s[:, -1].detach() for s in model.unroll(tokens[None, :-1], state))
            if turn % 2:
                released += 1
                norm = 0.3 if released == 1 else 0.0
                h, c = (clipped(s, norm) for s in (h, c))
            else:
                nlls.append(-log_p[range(last - first), tokens[1:]])
            state = State(h, c)
    records = marked_records(training(INDEPENDENT, texts), Signs())  # type: ignore[arg-type]
    found = noised_loss(model, records, Noise(0.0, 0.3), 1, np.random.default_rng(0))
    assert found.item() == pytest.approx(torch.cat(nlls).mean().item(), rel=1e-5)


# --- who is in a step


def test_public_records_enter_no_private_step(steps: Any) -> None:
    recipe = replace(INDEPENDENT, sampling_probability=1.0)
    moved(network(), recipe, (*TEXTS, "abc", "fed"))
    (sums,) = recipe.releases
    assert steps.sizes == [len(TEXTS)] * sums.count
    assert set(steps.divisors) == {sums.sampling_probability * recipe.population}


def test_private_runs_are_read_once_an_epoch(steps: Any) -> None:
    moved(network(), PAPER, TEXTS)
    total = sum(len(runs(text)[1::2]) for text in TEXTS)
    assert sum(steps.sizes) == PAPER.epochs * total
    assert set(steps.divisors) == {PAPER.batch}
    sums, _ = PAPER.releases
    assert sums.count == PAPER.epochs * max(len(runs(text)[1::2]) for text in TEXTS)
    assert not sums.sampled  # nothing hides who is in a batch


# --- noise


SCHEDULES = {
    "independent": replace(
        INDEPENDENT, hidden="noise", public=replace(NO_PUBLIC_STEP, epochs=2), transitions=2
    ),
    "paper": replace(PAPER, private_runs=3),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_noised_states_are_as_accounted(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = SCHEDULES[schedule]
    module = selective if schedule == "independent" else selective_as_published
    released, real = [], selective.noised

    def noted(state: State, noise: Noise, stream: Any, kept: torch.Tensor) -> State:
        assert noise == recipe.hidden_noise
        released.append(int(kept.sum()))
        return real(state, noise, stream, kept)

    monkeypatch.setattr(module, "noised", noted)
    texts = ["ab1cd2ef3ab"] * 4  # three private runs each, a public one after each
    moved(network(), recipe, texts)
    _, states = recipe.releases
    assert 2 * sum(released) == len(texts) * states.count  # h and c, each
    assert states.noise_multiplier == recipe.hidden_noise.multiplier


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_draw_serves_twice(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients and states have noise of one size here, so a shared stream would repeat values.

    Nor may a value return in a training with another seed.
    """
    recipe = replace(SCHEDULES[schedule], hidden_noise=Noise(1.0, 0.5))
    values, purposes = [], []
    draw, stream = Noise.drawn, Noise.stream

    def drawn_of(self: Noise, like: torch.Tensor, generator: Any) -> torch.Tensor:
        values.append(draw(self, like, generator))
        return values[-1]

    def stream_of(self: Noise, whose: Training, purpose: str) -> np.random.Generator:
        purposes.append(purpose)
        return stream(self, whose, purpose)

    monkeypatch.setattr(Noise, "drawn", drawn_of)
    monkeypatch.setattr(Noise, "stream", stream_of)
    for seed in (5, 6):
        recipe.train(network(), Signs(), training(recipe, ["ab1cd2ef3ab", "a4b"], seed))  # type: ignore[arg-type]
    assert {tuple(v.shape) for v in values} >= {tuple(p.shape) for p in network().parameters()}
    everything = torch.cat([v.flatten() for v in values])
    assert len(everything.unique()) > 0.99 * len(everything) > 500
    each = 3 if schedule == "independent" else 2
    assert len(purposes) == 2 * each and len(set(purposes)) == each


# --- what enters a public step

V = 26
PUBLIC = Recipe(epochs=2, learning_rate=1e-2, batch_tokens=20, max_length=16)


def of_letters(seed: int = 0) -> Any:
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
        PublicSteps(RECIPE, of_letters(), [one, *rest], 3, np.random.default_rng(0))._batches
        for one in (record, changed)
    )
    assert mine == theirs


def test_noised_states_carry_no_gradient_into_private_tokens() -> None:
    """Tokens x and y occur in private runs only: what reads them is cut off."""
    model = of_letters()
    records = [marked("abXYcdef"), marked("bcXde")]
    loss = noised_loss(model, records, Noise(1.0, 1.0), 4, np.random.default_rng(0))
    loss.backward()
    gradient = model.embedding.weight.grad
    assert gradient[[ord("x") - ord("a"), ord("y") - ord("a")]].abs().max() == 0
    assert gradient[[2, 3, 4]].abs().min(dim=1).values.min() > 0


def test_a_released_state_is_clipped_and_noised() -> None:
    width, noise = 5, Noise(2.0, 0.5)
    state = State(torch.full((3, width), 3.0, requires_grad=True), torch.zeros(3, width))
    made = noised(state, noise, np.random.default_rng(1), torch.tensor([False, True, True]))
    assert not made.h.requires_grad
    assert made.h[0].abs().max() == 0 and made.c[0].abs().max() == 0
    again = np.random.default_rng(1)
    each = 0.5 / math.sqrt(width)  # a vector of norm C, all entries alike
    for part, centre in ((made.h, each), (made.c, 0.0)):
        torch.testing.assert_close(part[1:], centre + noise.drawn(part, again)[1:])


# Algorithm 1


@given(words)
def test_turns_are_public_private_public(record: Marked) -> None:
    spans = turns(record)
    flat = [t for first, last in spans for t in range(first, last)]
    assert flat == list(range(len(record.tokens) - 1))
    for place, (first, last) in enumerate(spans):
        assert all(record.pairs[t] == (place % 2 == 1) for t in range(first, last))
    assert all(first < last for first, last in spans[1:])


FEW = ("ab1cd", "abc22de3f", "bcd")


def test_uncharged_private_runs_are_an_error() -> None:
    fits, fewer = (replace(PAPER, private_runs=runs, population=4) for runs in (2, 1))
    fits.train(network(), Signs(), training(fits, FEW))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="2 private runs; 1 are charged"):
        fewer.train(network(), Signs(), training(fewer, FEW))  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [RECIPE, replace(RECIPE, hidden="noise"), PAPER])
def test_training_leaves_the_global_stream_alone(method: Any) -> None:
    model = network()
    before = copy.deepcopy(model)
    state = torch.random.get_rng_state()
    told: list[float] = []
    method.train(model, Signs(), training(method, FEW), told.append)
    assert torch.equal(state, torch.random.get_rng_state())
    assert told[-1] == 1.0 and told == sorted(told)
    pairs = zip(model.parameters(), before.parameters(), strict=True)
    assert not any(torch.equal(a, b) for a, b in pairs)
