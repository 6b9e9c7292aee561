"""Computations stay on the model's device, and the host waits for it no more than it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.language_model import OpenSession
from audit.core.lora import Lora
from audit.core.randomness import noise_stream, stream
from audit.core.release import NoJournal, Release
from audit.core.training import Trained
from audit.models import lstm
from audit.models.adapters import shell, with_adapters
from audit.models.causal import CausalLM
from audit.models.ensembles.adapters_of_one_base import Together
from audit.models.seqpate.aggregation import Questions
from audit.models.seqpate.losses import AnsweredSentence, Loss, SoftTarget
from audit.models.seqpate.teachers import Contribution
from audit.models.training.dp_sgd import Noise, NoisySum
from audit.models.training.examples import Example, Marked, collated
from audit.models.training.fine_tuning import next_token_loss
from audit.models.training.recomputation import recomputed
from audit.models.training.selective import noised_loss
from defenses.capped_submix import CappedSubMix
from defenses.invisible_ink import InvisibleInk
from defenses.pmixed import PMixed
from defenses.submix import SubMix
from defenses.subsample_aggregate import SubsampleAggregate
from tests.models import alike
from tests.models.alike import VOCABULARY, llama
from tests.other_device import OTHER, OtherDevice, moved, other_device

NOISE = Noise(1.0, 1.0)
TEXTS = [[1, 2, 3, 4], [5, 6, 7], [1, 2, 9, 9, 9]]


def gpt2(seed: int = 0) -> Any:
    return alike.gpt2(seed).float()


def adapted() -> Any:
    return with_adapters(llama(), Lora(2, 4), 0)


def full(value: Any) -> Any:
    """A case that .ci/full runs."""
    return pytest.param(value, marks=pytest.mark.full)


SHAPES = pytest.mark.parametrize("shape", [full(gpt2), llama, full(adapted)])


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Any, OtherDevice]]]:
    """Moves models to the other device, and stays there until the test ends."""
    with ExitStack() as until_the_end:

        def place(*models: Any) -> tuple[Any, OtherDevice]:
            mode = until_the_end.enter_context(other_device(monkeypatch))
            return moved(models), mode

        yield place


@SHAPES
def test_plain_training(shape: Any, placed: Any) -> None:
    (model,), mode = placed(shape())
    next_token_loss(model, TEXTS).backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad.device == OTHER for p in trained)
    assert mode.read == 0


@SHAPES
@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, full(True)])
def test_private_training(shape: Any, twice: bool, placed: Any) -> None:
    """A step waits to check the losses, for cancelled sums and for who contributed: no more."""
    (model,), mode = placed(shape())
    with recomputed(model, twice):
        release = NoisySum(model, NOISE, noise_stream("a" * 64, "noise", "seed"))
        rows = [Example(((text, [0.5] * (len(text) - 1)),)) for text in TEXTS]
        for _ in range(2):
            before = mode.read
            release.into_gradients(collated(rows, 4096, model.device), 2.0)
    assert mode.read - before <= 4  # of two widths of rows
    assert all(p.grad.device == OTHER for p in model.parameters() if p.requires_grad)


def test_a_recurrent_network_with_noised_states(placed: Any) -> None:
    (model,), mode = placed(lstm.untrained(lstm.Architecture(VOCABULARY, 8, 8)))
    records = [Marked(tuple(text), tuple(i == 1 for i in range(len(text)))) for text in TEXTS]
    loss = noised_loss(model, records, NOISE, 2, noise_stream("a" * 64, "hidden", "seed"))
    loss.backward()
    assert loss.device == OTHER
    assert mode.read <= 3  # what is selected of logits and of targets has an unknown length


@SHAPES
def test_reading(shape: Any, placed: Any) -> None:
    (model,), mode = placed(shape())
    session = OpenSession(CausalLM(model, Tokens(), 32), stream(0, "test"))
    assert len(session.score([[1, 2]] * 3, TEXTS, moments=True)) == 3
    session.generate([[1]], 1)  # of a model that is used first, its cache is tried
    before = mode.read
    assert len(session.generate([[1, 2, 3]] * 4, 6)) == 4
    assert mode.read - before == 3  # all tokens at once, their probabilities, and whether the best
    assert session.distribution([[1, 2], [3]], [4, 5])[0].shape == (2, 2)


class Tokens:
    """A tokenizer that is never asked."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens)

    __hash__ = None  # type: ignore[assignment]


ENSEMBLES = [  # but GNMax, which counts distinct votes: how many they are is no shape
    SubMix(k=2, budget=200),
    full(SubMix(k=2, budget=200, clip=2.0, alpha=3.0, temperature=0.8)),
    CappedSubMix(k=4, budget=200),
    full(CappedSubMix(k=4, budget=200, multiple=1.5)),
    InvisibleInk(k=4, budget=200),
    PMixed(k=4, budget=200),
    SubsampleAggregate(k=4, budget=200),
]


@pytest.mark.slow
@pytest.mark.parametrize("members", ["stacked", full("separate")])
@pytest.mark.parametrize("defense", ENSEMBLES, ids=lambda d: type(d).__name__)
def test_ensembles(defense: Any, members: str, placed: Any) -> None:
    made = [llama() if members == "separate" else gpt2(i) for i in range(5)]
    models, _ = placed(*made)
    public, *parts = (CausalLM(model, Tokens(), 32) for model in models)
    trained = [Trained(None, part) for part in parts]  # type: ignore[arg-type]
    release: Release = defense.release(public, trained)
    session = release.open(np.random.default_rng(0), NoJournal())
    assert len(session.generate([[1, 2, 3]] * 2, 3)) == 2
    assert len(session.score([[1, 2]] * 3, TEXTS)) == 3


@pytest.mark.slow
def test_adapters_of_one_base(placed: Any) -> None:
    base = gpt2()
    together = Together([with_adapters(shell(base), Lora(2, 4), i) for i in range(3)] + [base])
    (together._inner,), _ = placed(together._inner)  # PEFT cannot add adapters there
    texts = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(OTHER)
    first = together(texts, use_cache=True)
    assert first.logits.shape == (2, 3, 4, VOCABULARY)
    assert first.past_key_values is not None
    first.past_key_values.batch_select_indices(torch.tensor([1, 1, 0]).to(OTHER))
    next_ones = torch.tensor([[7], [8], [9]]).to(OTHER)
    again = together(next_ones, first.past_key_values, logits_to_keep=1)
    assert again.logits.device == OTHER and again.logits.shape == (3, 1, 4, VOCABULARY)


@pytest.mark.slow
def test_a_student_and_its_teachers(placed: Any) -> None:
    (model,), mode = placed(gpt2())
    places = torch.tensor([[0, 1], [2, 3]])
    questions = Questions(places, torch.tensor([0, 0, 1]), torch.tensor([4, 5, 6]))
    values = Contribution(questions, TEXTS, "mean")(model)
    assert values.device.type == "cpu"  # where the noise is added
    target = SoftTarget(1, torch.tensor([4, 5]), torch.tensor([0.5, 0.5]))
    before = mode.read
    loss = Loss("kl", True, 20.0)(model, [AnsweredSentence(text, (target,)) for text in TEXTS])
    loss.backward()
    assert loss.device == OTHER and mode.read == before
