"""S-DPSGD releases what is accounted: its steps, its sampling, its noise and its noised states.

schedule=twice is DP-SGD after a training on redacted text, so test_dp_sgd.py holds it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import log_softmax

from audit.core.training import Training
from audit.models.lstm import Architecture, State, untrained
from audit.models.training import selective, selective_as_published
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import Example, marked_records, poisson
from audit.models.training.fine_tuning import Recipe
from audit.models.training.per_example_gradients import Batch
from audit.models.training.selective import SelectiveRecipe, noised_loss
from audit.models.training.selective_as_published import AlternatingRecipe
from audit.policies.digits import Digits
from tests.laws import binomial, normal

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


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


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


def private_step(
    model: Any, recipe: SelectiveRecipe, texts: Iterable[str]
) -> tuple[torch.Tensor, list[float]]:
    """−rate · Σ clip(g_i) / (q·N), each g_i of a mean over private predictions; and all ‖g_i‖."""
    model = copy.deepcopy(model).double()
    width = recipe.public.max_length
    total, norms = torch.zeros_like(weights(model)), []
    for text in texts:
        tokens, private = tokens_of(text), kinds(text)
        loss = torch.zeros((), dtype=torch.float64)
        for t in (t for t, kind in enumerate(private) if kind):
            row = tokens[t - t % width : t + 1]  # rows start from the zero state
            loss = loss - log_softmax(model(torch.tensor([row])).logits[0, -1], 0)[tokens[t + 1]]
        found = gradient(model, loss / sum(private))
        norms.append(float(found.norm()))
        total += clipped(found, recipe.noise.max_norm)
    rate = recipe.learning_rate / 2  # the only step of a schedule that falls to zero after it
    return -rate * total / (recipe.sampling_probability * recipe.population), norms


@pytest.mark.parametrize(("max_norm", "tokens"), [(0.75, 4096), (0.01, 4096), (0.75, 5)])
def test_a_private_step_is_the_definition(
    max_norm: float, tokens: int, drawn: list[list[Example]]
) -> None:
    silent = replace(
        INDEPENDENT,
        noise=Noise(0.0, max_norm),
        sampling_probability=0.7,
        steps=1,
        learning_rate=1e3,  # so long a step that nothing is lost when weights are subtracted
        physical_tokens=tokens,  # with 5, most records are larger than a chunk
    )
    found = moved(network(), silent)
    began = [tuple(example.rows[0][0]) for example in drawn[0]]
    came = [text for text in TEXTS if tuple(tokens_of(text)[:5]) in began]
    assert len(drawn) == 1 and 2 < len(came) == len(began) < len(TEXTS)
    expected, norms = private_step(network(), silent, came)
    assert float((found - expected).norm() / expected.norm()) < NEAR
    assert max(norms) > max_norm and (min(norms) < max_norm or max_norm == 0.01)
    everybody, _ = private_step(network(), silent, TEXTS)
    assert float((everybody - expected).norm() / expected.norm()) > FAR


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


@dataclass
class Steps:
    """How many examples each noisy sum has, and its divisor."""

    sizes: list[int]
    divisors: list[float]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Noisy sums that are noted instead of taken."""
    seen = Steps([], [])

    def into(self: NoisySum, batches: Iterable[Batch], divisor: float) -> None:
        seen.sizes.append(sum(batch.examples for batch in batches))
        seen.divisors.append(divisor)

    monkeypatch.setattr(NoisySum, "into_gradients", into)
    return seen


def at_half_more(examples: Sequence[Example], q: float, coins: Any) -> list[Example]:
    return poisson(examples, 1.5 * q, coins)


def shuffled(examples: Sequence[Example], q: float, coins: Any) -> list[Example]:
    return [examples[i] for i in coins.permutation(len(examples))[: round(q * len(examples))]]


def test_private_steps_sample_with_the_accounted_probability(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is there: neither q nor the divisor follows from the number present."""
    recipe = replace(INDEPENDENT, steps=250, sampling_probability=0.2, population=40)
    (sums,) = recipe.releases
    for present in (10, 20):
        steps.sizes.clear()
        moved(network(), recipe, (*TEXTS, *TEXTS)[:present])
        assert len(steps.sizes) == sums.count
        assert binomial(steps.sizes, present, sums.sampling_probability)
    assert set(steps.divisors) == {0.2 * 40}
    for trap in (at_half_more, shuffled):
        steps.sizes.clear()
        monkeypatch.setattr("audit.models.training.examples.poisson", trap)
        moved(network(), recipe, (*TEXTS, *TEXTS))
        assert not binomial(steps.sizes, 20, 0.2)


def test_public_records_enter_no_private_step(steps: Steps) -> None:
    moved(network(), replace(INDEPENDENT, sampling_probability=1.0), (*TEXTS, "abc", "fed"))
    assert set(steps.sizes) == {len(TEXTS)}


def test_private_runs_are_read_once_an_epoch(steps: Steps) -> None:
    moved(network(), PAPER, TEXTS)
    total = sum(len(runs(text)[1::2]) for text in TEXTS)
    assert sum(steps.sizes) == PAPER.epochs * total
    assert set(steps.divisors) == {PAPER.batch}
    sums, _ = PAPER.releases
    assert sums.count == PAPER.epochs * max(len(runs(text)[1::2]) for text in TEXTS)
    assert not sums.sampled  # nothing hides who is in a batch


# --- noise


def assert_noise(change: torch.Tensor, deviation: float) -> None:
    """Checks that it is N(0, deviation²), by a test that sees 2 % more or less."""
    assert normal(change, deviation)
    assert not normal(change, 1.02 * deviation) and not normal(change, deviation / 1.02)


@pytest.mark.parametrize("texts", [(), TEXTS])
def test_an_empty_batch_releases_accounted_noise(
    texts: Sequence[str],
) -> None:
    model = network(width=128, scale=1.0)
    recipe = replace(  # nobody is drawn
        INDEPENDENT, noise=Noise(1.5, 0.4), sampling_probability=1e-12, population=10**13
    )
    (sums,) = recipe.releases
    assert sums.count == 3
    each = sums.noise_multiplier * 0.4 / 10 * recipe.learning_rate
    change = moved(model, recipe, texts)
    assert_noise(change, each * (9 + 4 + 1) ** 0.5 / 4)  # at rates of 3/4, 2/4 and 1/4
    sizes = [p.numel() for p in model.parameters()]
    assert all(normal(part, each * 14**0.5 / 4) for part in change.split(sizes))


def test_the_papers_runs_release_accounted_noise() -> None:
    """Two runs of one record, clipped to almost nothing, in each of two epochs."""
    model = network(width=128, scale=1.0)
    recipe = replace(PAPER, noise=Noise(1e4, 1e-4), public_learning_rate=0.0)
    sums, _ = recipe.releases
    assert sums.count == 4
    each = sums.noise_multiplier * 1e-4 / recipe.batch * recipe.learning_rate
    change = moved(model, recipe, ["1abc2"])
    expected = each * (2 * (4 + 1)) ** 0.5 / 3  # two at a rate of 2/3 and two at 1/3
    assert_noise(change, expected)
    sizes = [p.numel() for p in model.parameters()]
    assert all(normal(part, expected) for part in change.split(sizes))


SCHEDULES = {
    "independent": replace(
        INDEPENDENT, hidden="noise", public=replace(NO_PUBLIC_STEP, epochs=2), transitions=2
    ),
    "paper": replace(PAPER, private_runs=3),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_noised_states_are_as_accounted(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """States are clipped to almost nothing, so that their noise is what is left."""
    recipe = replace(SCHEDULES[schedule], hidden_noise=Noise(2e4, 1e-4))
    module = selective if schedule == "independent" else selective_as_published
    released, real = [], selective.noised

    def noted(state: State, noise: Noise, stream: Any, kept: torch.Tensor) -> State:
        made = real(state, noise, stream, kept)
        released.append(torch.stack([made.h[kept], made.c[kept]]))
        return made

    monkeypatch.setattr(module, "noised", noted)
    texts = ["ab1cd2ef3ab"] * 4  # three private runs each, a public one after each
    moved(network(width=256, scale=1.0), recipe, texts)
    _, states = recipe.releases
    assert 2 * sum(part.shape[1] for part in released) == len(texts) * states.count
    found = torch.cat([part.flatten() for part in released])
    assert normal(found, states.noise_multiplier * 1e-4)
    assert not normal(found, 1.1 * states.noise_multiplier * 1e-4)


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


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_training_has_noise_of_its_own(schedule: str) -> None:
    recipe = SCHEDULES[schedule]
    one = training(recipe)
    others = [
        replace(one, seed=6),
        replace(one, texts=(*one.texts[:-1], "bb4cc")),
        replace(one, private=(*one.private[:-1], ())),
        replace(one, method=replace(recipe, learning_rate=0.1)),
        replace(one, after=one),
    ]

    def first(whose: Training, purpose: str) -> np.ndarray:
        return recipe.noise.stream(whose, purpose).standard_normal(2000)

    rows = [first(whose, p) for whose in (one, *others) for p in ("sampling", "noise", "hidden")]
    together = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(together).max() < 5 / 2000**0.5
    assert np.array_equal(first(one, "noise"), first(replace(one, label="again"), "noise"))
