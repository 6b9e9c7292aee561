"""DP-SGD as it is accounted for; each trap is put back once, and its test must see it."""

from __future__ import annotations

import copy
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import log_softmax
from transformers import GPT2Config, GPT2LMHeadModel

from audit.core.errors import UsageError
from audit.core.training import NotFiniteError, Training
from audit.models.lstm import Architecture, untrained
from audit.models.measuring import Peak
from audit.models.training import dp_sgd, per_example_gradients
from audit.models.training.dp_sgd import Noise, NoisySum, PrivateRecipe, adapted
from audit.models.training.examples import Example, collate, collated, poisson
from audit.models.training.fine_tuning import Recipe
from audit.models.training.per_example_gradients import Batch
from tests.models.alike import weights
from tests.models.training.test_per_example_gradients import FunctionalHead

CPU = torch.device("cpu")
LETTERS = "^abcdefghijk"
RECIPE = PrivateRecipe(
    noise=Noise(1.0, 0.5),
    sampling_probability=0.5,
    steps=3,
    population=15,
    learning_rate=0.2,
    max_length=6,
    optimizer="sgd",
    physical_tokens=24,
)
# One step without noise, so long that nothing is lost when weights are subtracted; norms of tiny()
# are 9 to 19, so that some are clipped and some are not.
SILENT = replace(RECIPE, noise=Noise(0.0, 12.5), steps=1, learning_rate=1e3, physical_tokens=72)


@dataclass(frozen=True)
class Letters:
    """One token a letter; ^ opens and closes."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [LETTERS.index(letter) for letter in text]


def tiny(dropout: float = 0.0, **changes: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    drop = {name: dropout for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(**{**sizes, **drop, **ends, **changes})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    return model


def texts(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(LETTERS[1:], k=draw.randint(1, 14))) for _ in range(count)]


def people(count: int = 12, seed: int = 5) -> Training:
    """Every third owner has two texts."""
    names = [f"{i}" for i in range(count)]
    owners = [*names, *names[::3]]
    return Training("dp_sgd", tuple(texts(len(owners))), RECIPE, seed, tuple(owners))


def trained(model: Any, recipe: PrivateRecipe, training: Training) -> Any:
    """A trained copy."""
    model = copy.deepcopy(model)
    recipe.train(model, Letters(), training)
    return model


def moved(model: Any, recipe: PrivateRecipe, training: Training) -> torch.Tensor:
    return weights(trained(model, recipe, training)) - weights(model)


# --- one step is the definition


def definition(model: Any, recipe: PrivateRecipe, training: Training, came: Any) -> torch.Tensor:
    """−rate · Σ clip(g_i) / (q·N) over whoever came, each text read alone, row by row."""
    model = copy.deepcopy(model).double()
    parameters = list(model.parameters())
    total = torch.zeros_like(weights(model))
    for owner in dict.fromkeys(training.owners):
        mine = [t for t, who in zip(training.texts, training.owners, strict=True) if who == owner]
        tokens = [[0, *Letters().encode(text), 0] for text in mine]
        if tokens[0][: recipe.max_length + 1] not in came:
            continue
        value = torch.zeros((), dtype=torch.float64)
        for text in tokens:
            for first in range(0, len(text) - 1, recipe.max_length):
                row = torch.tensor(text[first : first + recipe.max_length + 1])
                told = log_softmax(model(row[None, :-1]).logits[0], dim=-1)
                value = value - told[range(len(row) - 1), row[1:]].sum()
        value = value / sum(len(text) - 1 for text in tokens)
        found = torch.autograd.grad(value, parameters)
        gradient = torch.cat([g.flatten() for g in found])
        total += gradient * min(1.0, recipe.noise.max_norm / float(gradient.norm()))
    rate = recipe.learning_rate / 2  # the only step of a schedule that falls to zero after it
    return -rate * total / (recipe.sampling_probability * recipe.population)


def error(model: Any, drawn: list[list[Example]], recipe: PrivateRecipe = SILENT) -> float:
    """How far one step is from the definition, relative."""
    training = people()
    drawn.clear()
    found = moved(model, recipe, training)
    came = [list(example.rows[0][0]) for step in drawn for example in step]
    assert 2 < len(came) < 12 and len(drawn) == 1
    expected = definition(model, recipe, training, came)
    return float((found - expected).norm() / expected.norm())


NEAR, FAR = 1e-5, 1e-3


def of_all(batches: Iterable[Batch]) -> Iterator[Batch]:
    """As `labels=` does: the mean over all tokens of the batch."""
    for batch in batches:
        real = [(block.weights > 0).float() for block in batch.blocks]
        mean = batch.examples / sum(float(block.sum()) for block in real)
        pairs = zip(batch.blocks, real, strict=True)
        blocks = tuple(replace(block, weights=kept * mean) for block, kept in pairs)
        yield replace(batch, blocks=blocks)


def cut_short(batches: Iterable[Batch]) -> Iterator[Batch]:
    yield from list(batches)[:-1]


def read_twice(batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        yield from (batch, batch)


def rows_apart(batches: Iterable[Batch]) -> Iterator[Batch]:
    """A user's records clipped one by one."""
    for batch in batches:
        yield from (Batch((replace(block, rows=1, own=()),)) for block in batch.blocks)


def through(change: Callable[[Iterable[Batch]], Iterator[Batch]]) -> Callable[..., None]:
    def put(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dp_sgd, "collated", lambda *given: change(collated(*given)))

    return put


def realised_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NoisySum.into_gradients

    def into(self: NoisySum, batches: Iterable[Batch], divisor: float) -> None:
        kept = list(batches)
        real(self, kept, max(1, sum(batch.examples for batch in kept)))

    monkeypatch.setattr(NoisySum, "into_gradients", into)


def batch_clipped_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = per_example_gradients.clipped_gradients

    def whole(model: Any, batch: Batch, max_norm: float) -> Any:
        found = real(model, batch, float("1e9"))
        norm = torch.cat([total.flatten() for total in found.sums]).norm()
        factor = per_example_gradients.clip_factors(norm, max_norm)
        return replace(found, sums=[total * factor for total in found.sums])

    monkeypatch.setattr(dp_sgd, "clipped_gradients", whole)


TRAPS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the mean over the whole batch": through(of_all),
    "an accumulation cut short": through(cut_short),
    "a record read twice a step": through(read_twice),
    "a user's records clipped one by one": through(rows_apart),
    "the batch clipped as one": batch_clipped_as_one,
    "the realised batch as divisor": realised_batch,
}


@pytest.mark.parametrize("form", ["tied", "untied"])
def test_a_step_is_the_definition(form: str, drawn: list[list[Example]]) -> None:
    model = tiny(tie_word_embeddings=form == "tied")
    assert error(model, drawn) < NEAR
    assert error(model, drawn, replace(SILENT, noise=Noise(0.0, 0.5))) < NEAR  # all clipped


def clipped_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    real = per_example_gradients.clipped_gradients

    def each(model: Any, batch: Batch, max_norm: float) -> Any:
        parts = [real(model, Batch((block,)), max_norm) for block in batch.blocks]
        together = zip(*(part.sums for part in parts), strict=True)
        return replace(parts[0], sums=[torch.stack(sums).sum(dim=0) for sums in together])

    monkeypatch.setattr(dp_sgd, "clipped_gradients", each)


CHUNKED = replace(SILENT, physical_tokens=10)  # a row has up to 6 tokens, a user up to 29


@pytest.mark.parametrize("max_norm", [12.5, 0.5])
def test_a_large_user_is_clipped_as_one(
    max_norm: float, drawn: list[list[Example]], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(CHUNKED, noise=Noise(0.0, max_norm))
    assert error(tiny(), drawn, recipe) < NEAR
    kinds = [batch.chunked for batch in collated(drawn[0], recipe.physical_tokens, CPU)]
    assert True in kinds and False in kinds
    monkeypatch.setattr(NoisySum, "_check", lambda self, batch: None)
    clipped_by_chunk(monkeypatch)  # put back
    assert error(tiny(), drawn, recipe) > FAR


@pytest.mark.parametrize("form", ["transformer", "LSTM"])
def test_no_forward_pass_reads_more_than_physical_tokens(form: str) -> None:
    model = tiny() if form == "transformer" else untrained(Architecture(12, embedding=8, hidden=8))
    sizes = []
    handle = model.register_forward_pre_hook(
        lambda module, args, named: sizes.append(named["input_ids"].numel()), with_kwargs=True
    )
    longest = "abc" * 40  # 121 predictions in 21 rows
    training = replace(people(), texts=(*people().texts, longest), owners=(*people().owners, "0"))
    replace(CHUNKED, sampling_probability=1.0).train(model, Letters(), training)
    handle.remove()
    assert max(sizes) <= CHUNKED.physical_tokens


def test_memory_follows_physical_tokens() -> None:
    """Of many users as much is in memory at one time as of few."""
    recipe, most = replace(RECIPE, sampling_probability=1.0, steps=1, physical_tokens=72), []
    for count in (12, 60):
        model, training = tiny(), people(count)
        with Peak() as peak:
            recipe.train(model, Letters(), training)
        most.append(peak.most)
    assert most[1] < 1.2 * most[0]


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_put_back_is_seen(
    trap: str, drawn: list[list[Example]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NoisySum, "_check", lambda self, batch: None)
    assert error(tiny(), drawn) < NEAR
    TRAPS[trap](monkeypatch)
    assert error(tiny(), drawn) > FAR


# --- who is in a step


def test_probability_and_divisor_are_public(steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is there has a coin in every step; neither q nor the divisor follows from them."""
    asked: list[tuple[int, float]] = []

    def noted(examples: Sequence[Example], q: float, coins: Any) -> list[Example]:
        asked.append((len(examples), q))
        return poisson(examples, q, coins)

    monkeypatch.setattr("audit.models.training.examples.poisson", noted)
    recipe = replace(RECIPE, sampling_probability=0.2, population=20)
    for present in (8, 16):
        recipe.train(tiny(), Letters(), people(present))
    assert asked == [(8, 0.2)] * 3 + [(16, 0.2)] * 3
    assert steps.divisors == [4.0] * 6


def test_every_sampled_owner_is_read_once_a_step(steps: Any, drawn: list[list[Example]]) -> None:
    replace(RECIPE, steps=30).train(tiny(), Letters(), people())
    assert len(drawn) == len(steps.rows) == 30
    for examples, rows, size in zip(drawn, steps.rows, steps.sizes, strict=True):
        assert size == len(examples)
        assert rows == Counter(tuple(row[:-1]) for example in examples for row, _ in example.rows)


# --- noise


@pytest.mark.parametrize("form", ["tied", "untied", "top:1"])
def test_an_empty_batch_releases_noise_alone(form: str) -> None:
    """Each trainable parameter gets its own draws of the stream, one after the other."""
    model, noise = tiny(tie_word_embeddings=form != "untied"), Noise(1.5, 0.4)
    with adapted(model, form if form == "top:1" else "all", 0, 0) as inner:
        release = NoisySum(inner, noise, np.random.default_rng(3))
        stream = np.random.default_rng(3)
        for _ in range(2):
            release.into_gradients([], 50.0)
            for parameter in per_example_gradients.trainable(inner):
                assert torch.equal(parameter.grad, noise.drawn(parameter, stream) / 50.0)


def test_each_training_has_noise_of_its_own() -> None:
    """What determines a training is tested with the keys of trainings."""

    def first(training: Training, purpose: str = "noise", source: str = "seed") -> float:
        noise = replace(RECIPE.noise, source=source)
        return float(noise.stream(training, purpose).standard_normal(1)[0])

    one = people()
    others = [replace(one, seed=6), replace(one, key="a key")]
    assert first(one) == first(replace(one, label="again"))
    draws = [first(one), first(one, "sampling"), *map(first, others)]
    draws += [first(one, source="system") for _ in range(2)]
    assert len(set(draws)) == 6


def test_sampling_and_noise_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    purposes, real = [], Noise.stream

    def noted(self: Noise, training: Training, purpose: str) -> np.random.Generator:
        purposes.append(purpose)
        return real(self, training, purpose)

    monkeypatch.setattr(Noise, "stream", noted)
    trained(tiny(), RECIPE, people())
    assert len(purposes) == len(set(purposes)) == 2


def test_noise_is_drawn_in_float64_at_its_scale() -> None:
    drawn = Noise(1.5, 0.4).drawn(torch.zeros(30, 40), np.random.default_rng(1))
    exact = np.random.default_rng(1).standard_normal((30, 40)) * (1.5 * 0.4)
    assert torch.equal(drawn, torch.from_numpy(exact).float())


def states() -> list[Any]:
    return [torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())]


def global_noise(self: Noise, like: torch.Tensor, stream: Any) -> torch.Tensor:
    return torch.randn_like(like) * (self.multiplier * self.max_norm)


@pytest.mark.parametrize("lora", [0, 2])
def test_no_global_generator_is_read_or_moved(lora: int, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, model = replace(RECIPE, lora=lora), tiny(dropout=0.4)

    def twice() -> tuple[bool, bool]:
        found, still = [], True
        for seed in (1, 2):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
            before = states()
            found.append(weights(trained(model, recipe, people())))
            still = still and states() == before
        return torch.equal(*found), still

    assert twice() == (True, True)
    monkeypatch.setattr(Noise, "drawn", global_noise)  # put back
    assert twice() == (False, False)


def test_an_empty_batch_is_a_step_too() -> None:
    """Where nobody is drawn, as much noise is added as where nobody is there."""
    recipe = replace(RECIPE, sampling_probability=1e-12, population=10**12, learning_rate=1)
    undrawn = replace(people(), key="one stream")
    nobody, told = replace(undrawn, texts=(), owners=()), list[float]()
    assert torch.equal(moved(tiny(), recipe, nobody), moved(tiny(), recipe, undrawn))
    recipe.train(tiny(), Letters(), nobody, told.append)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])


def test_without_texts_noise_remains() -> None:
    nobody = replace(people(), texts=(), owners=())
    assert not RECIPE.idle(nobody) and not RECIPE.idle(people())
    assert replace(RECIPE, steps=0).idle(people())
    assert Recipe(3, 0.1, 8, 8).idle(nobody) and not Recipe(3, 0.1, 8, 8).idle(people())
    assert moved(tiny(), replace(RECIPE, steps=0), people()).abs().max() == 0
    assert RECIPE.reads == ("texts", "owners") and RECIPE.passes == 1.5


def test_nothing_is_dropped_out() -> None:
    with_dropout, without = (trained(tiny(p), RECIPE, people()) for p in (0.5, 0.0))
    assert torch.equal(weights(with_dropout), weights(without))
    begun = tiny(0.5).train()
    assert torch.equal(weights(trained(begun, RECIPE, people())), weights(without))


# --- checkpointing, frozen layers, adapters


def test_checkpointing_makes_no_difference() -> None:
    model = tiny()
    expected = moved(model, RECIPE, people())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # transformers gives it another name
        model.gradient_checkpointing_enable()
    assert torch.equal(moved(model.train(), RECIPE, people()), expected)


def test_adapters_are_merged_and_nothing_else_moves() -> None:
    before = tiny()
    after = trained(before, replace(RECIPE, lora=2, learning_rate=5.0), people())
    assert [n for n, _ in after.named_parameters()] == [n for n, _ in before.named_parameters()]
    assert {type(m) for m in after.modules()} == {type(m) for m in before.modules()}
    assert all(p.requires_grad and p.grad is None for p in after.parameters())
    assert not any(module._forward_hooks for module in after.modules())
    for name, weight in after.named_parameters():
        change = weight - before.get_parameter(name)
        if name.endswith("attn.c_attn.weight"):
            assert int(torch.linalg.matrix_rank(change, rtol=1e-3)) == 2
        else:
            assert not change.any(), name


def test_what_a_model_has_not_is_refused() -> None:
    network = untrained(Architecture(12, 4, 4))
    for changes, why in (
        ({"layers": "top:1"}, "has 0 blocks"),
        ({"lora": 2}, "lora=2: adapters do not fit"),
    ):
        with pytest.raises(UsageError, match=why):
            replace(RECIPE, **changes).train(network, Letters(), people())


def test_an_lstm_is_trained_as_well(drawn: list[list[Example]]) -> None:
    model = untrained(Architecture(12, embedding=8, hidden=8))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8)
    assert error(model, drawn) < NEAR


# --- the check on the first batch


def with_functional_head() -> Any:
    model = tiny()
    model.lm_head = FunctionalHead(model.transformer.wte)
    return model


def test_an_unseen_part_stops_the_training(
    drawn: list[list[Example]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_functional_head()
    before = weights(model)
    with pytest.raises(RuntimeError, match="nothing was trained"):
        RECIPE.train(model, Letters(), people())
    assert torch.equal(weights(model), before)
    late = replace(RECIPE, sampling_probability=0.01, steps=200)  # its first batches are empty
    with pytest.raises(RuntimeError, match="plain loop"):
        late.train(with_functional_head(), Letters(), people())
    assert drawn[1] == [] and sum(map(bool, drawn[1:])) == 1
    monkeypatch.setattr(NoisySum, "_check", lambda self, batch: None)  # put back
    assert error(with_functional_head(), drawn) > FAR


class ByWidth(GPT2LMHeadModel):
    """Answers otherwise in a wider batch, as a model does that reads padding."""

    def forward(self, input_ids: Any = None, **rest: Any) -> Any:
        answer = GPT2LMHeadModel.forward(self, input_ids=input_ids, **rest)
        answer.logits = answer.logits * (1 + input_ids.shape[1] / 10)
        return answer


def test_a_padding_reader_stops_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny()
    model.__class__ = ByWidth
    with pytest.raises(RuntimeError, match="otherwise in a padded batch; nothing was trained"):
        RECIPE.train(model, Letters(), people())
    padded = lambda self, index: self.part(index, index + 1)  # noqa: E731
    monkeypatch.setattr(Batch, "alone", padded)  # put back: the loop reads the padding too
    RECIPE.train(model, Letters(), people())


def test_the_check_is_made_for_large_users() -> None:
    with pytest.raises(RuntimeError, match="nothing was trained"):
        replace(RECIPE, physical_tokens=1).train(with_functional_head(), Letters(), people())


def test_the_check_is_short_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, real = [], per_example_gradients.loop
    monkeypatch.setattr(dp_sgd, "loop", lambda *given: calls.append(1) or real(*given))
    expected = weights(trained(tiny(), RECIPE, people()))
    assert 1 <= len(calls) <= dp_sgd.LONELY
    monkeypatch.setattr(NoisySum, "_check", lambda self, batch: None)
    assert torch.equal(weights(trained(tiny(), RECIPE, people())), expected)


def test_an_unsupported_layer_is_refused_first(
    drawn: list[list[Example]],
) -> None:
    model = tiny()
    model.transformer.ln_f = nn.GroupNorm(1, 16)
    with pytest.raises(UsageError, match="GroupNorm"):
        RECIPE.train(model, Letters(), people())
    assert drawn == []


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_loss_of_nan_ends_the_training(when: str) -> None:
    model = tiny()
    recipe = RECIPE if when == "at once" else replace(RECIPE, learning_rate=1e30, steps=9)
    if when == "at once":
        with torch.no_grad():
            model.transformer.wte.weight[0, 0] = float("nan")
    with pytest.raises(NotFiniteError, match="not finite; lower"):
        recipe.train(model, Letters(), people())


def test_examples_of_32_rows_are_checked() -> None:
    for widths, examples in (([5], 16), ([5] * 8, 4), ([5] * 9 + [40] * 9, 2)):  # at least two
        rows = tuple(([0] * (width + 1), [1.0] * width) for width in widths)
        assert dp_sgd.checked(collate([Example(rows)] * 20, CPU, border=5)) == examples


def test_lone_examples_do_not_end_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of one, one, two and three: whose gradients are mixed up shows in the third."""
    seen: list[int] = []
    monkeypatch.setattr(NoisySum, "_compare", lambda self, batch: seen.append(batch.examples))
    few = [Example((([0, 1, 2], [0.5, 0.5]),))] * 3
    lonely, alone = (1,) * 9, [1] * dp_sgd.LONELY
    for sizes, checked in (
        ((1, 1, 2, 3) * 2, [1, 1, 2]),
        (lonely, alone),
        ((*lonely, 2, 3, *lonely, 2), [*alone, 2]),
    ):
        release = NoisySum(tiny(), Noise(1.0, 1.0), Noise(1.0, 1.0).stream(people(), "noise"))
        seen.clear()
        release.into_gradients([collate(few[:n], CPU) for n in sizes], 1.0)
        assert seen == checked


def test_fresh_adapters_are_moved_while_they_are_checked() -> None:
    """Else all gradients of one half are zero, whatever is done with them. They are put back."""
    found: list[float] = []
    batch = collate([Example((([0, 1, 2], [0.5, 0.5]),))] * 2, torch.device("cpu"))

    class Looking(NoisySum):
        def _compare(self, batch: Batch) -> None:
            sums = per_example_gradients.loop(inner, batch, 1.0).sums
            names = [name for name, p in inner.named_parameters() if p.requires_grad]
            pairs = zip(names, sums, strict=True)
            found.extend(float(total.norm()) for name, total in pairs if "lora_A" in name)

    with adapted(tiny(), "all", 2, 0) as inner:
        before = [p.detach().clone() for p in inner.parameters()]
        release = Looking(inner, Noise(1.0, 1.0), Noise(1.0, 1.0).stream(people(), "noise"))
        release.into_gradients([batch], 1.0)
        assert found and min(found) > 0
        assert all(map(torch.equal, before, inner.parameters()))
