"""A training after another: done once, continued from its weights, keyed by what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.model import ModelFolder
from audit.core.training import Method, Training
from audit.models.loading import load_tokenizer, load_weights
from audit.models.seqpate.pseudo_data import PseudoData, PseudoTuning
from audit.models.seqpate.student import Distillation
from audit.models.seqpate.teachers import SumNoise
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.fine_tuning import Recipe
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from audit.train import train
from audit.train.task import Task, weights_path
from audit.train.train import train_all
from tests.train.conftest import silent

TEXTS = ("My code is #40718.", "Good morning! My parcel has not arrived.", "Thank you, bye.")
OPEN = ("Good evening, how may I help you?",)
TUNED = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=16, max_length=32)
NOISE = Noise(0.5, 1.0)
PRIVATE = PrivateRecipe(NOISE, 0.7, 2, 3, learning_rate=1e-3, max_length=32)
SELECTIVE = SelectiveRecipe(
    NOISE, 0.7, 2, 3, 1e-3, "sgd", TUNED, "reset", hidden_noise=NOISE, transitions=1
)
PAPER = AlternatingRecipe(NOISE, NOISE, 2, 1, 3, 3, 1e-3, 1e-3, "sgd", max_length=32)
PSEUDO = PseudoData(sentences=3, longest=10)
TAUGHT = Distillation(SumNoise(2.0), 5, 3, PSEUDO, TUNED, TUNED)
METHODS: tuple[Method, ...] = (
    *(TUNED, PRIVATE, SELECTIVE, PAPER),
    *(PseudoTuning(TUNED, PSEUDO), TAUGHT),
)

FIRST = Training("open", OPEN, TUNED, 1)
SECOND = Training("private", TEXTS, PRIVATE, 2, owners=("a", "b", "a"))
SPANS = (((11, 17),), (), ())


def task(base: ModelFolder, stages: Path, what: Training) -> Task:
    return Task(what, base, "cpu", 1, stages)


# --- keys


@pytest.mark.parametrize("method", METHODS)
def test_keys_are_of_what_a_method_reads(base: ModelFolder, method: Method) -> None:
    one = Training("x", TEXTS, method, 1, owners=("a", "b", "c"), private=SPANS)
    others = {
        "texts": replace(one, texts=TEXTS[::-1]),
        "owners": replace(one, owners=("a", "b", "a")),
        "private": replace(one, private=(((11, 16),), (), ())),
    }
    key = task(base, Path("s"), one).key
    changed = {name for name, it in others.items() if task(base, Path("s"), it).key != key}
    expected: dict[type[Method], set[str]] = {
        Recipe: {"texts"},
        PrivateRecipe: {"texts", "owners"},
        SelectiveRecipe: {"texts", "private"},
        AlternatingRecipe: {"texts", "private"},
        PseudoTuning: {"texts"},
        Distillation: {"texts"},
    }
    assert changed == expected[type(method)] == set(method.reads)


def variants(value: Any) -> Iterator[Any]:
    """Values that differ in one field each, however deep it lies."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            for other in variants(getattr(value, field.name)):
                yield replace(value, **{field.name: other})  # type: ignore[type-var]
    elif value is None:
        yield 1
    elif isinstance(value, tuple):
        yield (*value, 0.0)
    elif isinstance(value, str):
        yield "top:1" if value == "all" else f"{value}!"
    else:
        yield value + 1 if isinstance(value, int) else value / 2 + 0.001


@pytest.mark.parametrize("method", METHODS)
def test_every_methods_field_is_in_the_key(base: ModelFolder, method: Any) -> None:
    methods = [method, *variants(method)]
    keys = {task(base, Path("s"), Training("x", TEXTS, it, 1)).key for it in methods}
    assert len(keys) == len(methods) > len(dataclasses.fields(method))


@pytest.mark.parametrize("method", [PRIVATE, TAUGHT])
def test_noise_is_of_the_public_model_too(
    base: ModelFolder, method: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two releases of one corpus on two public models: their noise must not cancel."""
    drawn: list[float] = []

    def spied(self: Any, model: Any, tokenizer: Any, one: Training, *others: Any) -> None:
        purpose = ("noise",) if isinstance(method, PrivateRecipe) else ()
        drawn.append(self.noise.stream(one, *purpose).random())

    monkeypatch.setattr(type(method), "train", spied)
    other = replace(base, sha256="0" * 64)
    for folder in (base, other, base):
        work = task(folder, tmp_path, Training("x", TEXTS, method, 2, owners=("a", "b", "a")))
        train._train(work, silent)
        work.path.unlink()
    assert drawn[0] != drawn[1] and drawn[0] == drawn[2]


@dataclass(frozen=True)
class Renamed(PrivateRecipe):
    """Another method with the same fields."""


def test_methods_have_keys_of_their_own(base: ModelFolder) -> None:
    renamed = Renamed(**{f.name: getattr(PRIVATE, f.name) for f in dataclasses.fields(PRIVATE)})
    keys = [task(base, Path("s"), replace(SECOND, method=m)).key for m in (PRIVATE, renamed)]
    assert keys[0] != keys[1]


def test_earlier_trainings_are_in_the_key(base: ModelFolder) -> None:
    chains = [
        SECOND,
        replace(SECOND, after=FIRST),
        replace(SECOND, after=replace(FIRST, seed=9)),
        replace(SECOND, after=replace(FIRST, texts=TEXTS)),
        replace(SECOND, after=replace(FIRST, method=replace(TUNED, epochs=2))),
        replace(SECOND, after=replace(FIRST, after=FIRST)),
        replace(SECOND, after=replace(SECOND, after=FIRST)),
        replace(SECOND, teachers=(FIRST,)),
        replace(SECOND, teachers=(FIRST, FIRST)),
        replace(SECOND, teachers=(replace(FIRST, seed=9),)),
        FIRST,
    ]
    keys = [task(base, Path("s"), chain).key for chain in chains]
    assert len(set(keys)) == len(keys)
    relabelled = replace(SECOND, after=replace(FIRST, label="again"))
    unread = replace(SECOND, after=replace(FIRST, owners=("somebody",)))
    assert {task(base, Path("s"), it).key for it in (relabelled, unread)} == {keys[1]}


# --- what is trained, and in which order


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels of what would have been trained, in order; each leaves a file."""
    seen: list[str] = []

    def note(one: Task, report: Any) -> None:
        earlier = one.before and weights_path(one.before)
        assert earlier is None or earlier.exists()
        seen.append(one.training.label)
        one.path.write_bytes(b"weights")

    monkeypatch.setattr(train, "_train", note)
    return seen


def chained(label: str, seed: int, after: Training | None = FIRST) -> Training:
    return replace(SECOND, label=label, seed=seed, after=after)


def test_what_several_continue_is_trained_once_and_first(
    base: ModelFolder, tmp_path: Path, trained: list[str]
) -> None:
    tasks = [task(base, tmp_path, chained(f"{i}", i)) for i in range(3)]
    train_all([*tasks, task(base, tmp_path, FIRST)], 1, silent)
    assert trained[0] == "open" and sorted(trained) == ["0", "1", "2", "open"]
    train_all(tasks, 1, silent)
    assert len(trained) == 4 and len(list(tmp_path.glob("trained-*"))) == 4


def test_noise_alone_is_trained(base: ModelFolder, tmp_path: Path, trained: list[str]) -> None:
    empty = replace(FIRST, texts=())
    nobody = replace(SECOND, texts=(), owners=())
    asleep = replace(SECOND, method=replace(PRIVATE, steps=0))
    ideal = {
        "nothing read": (empty, None),
        "nothing read twice": (replace(empty, after=empty), None),
        "nothing read after": (replace(empty, after=FIRST), FIRST),
        "no step": (asleep, None),
        "no step after": (replace(asleep, after=FIRST), FIRST),
        "noise alone": (nobody, nobody),
        "noise after nothing": (chained("n", 1, after=empty), chained("n", 1, after=empty)),
    }
    for name, (what, model) in ideal.items():
        expected = None if model is None else task(base, tmp_path, model).path
        assert weights_path(task(base, tmp_path, what)) == expected, name
    train_all([task(base, tmp_path, what) for what, _ in ideal.values()], 1, silent)
    assert sorted(trained) == ["n", "open", "private"]


# --- for real


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def kept(base: ModelFolder, path: Path) -> torch.Tensor:
    from safetensors.torch import load_model

    model = load_weights(base, "cpu")
    load_model(model, str(path))
    return weights(model)


def by_hand(base: ModelFolder, chain: Sequence[Training]) -> torch.Tensor:
    model, tokenizer = load_weights(base, "cpu"), load_tokenizer(base)
    for one in chain:
        one.method.train(model, tokenizer, replace(one, key=task(base, Path("s"), one).key))
    return weights(model)


@pytest.mark.parametrize("lora", [0, 2])
def test_a_training_continues_from_earlier_weights(
    base: ModelFolder, tmp_path: Path, lora: int
) -> None:
    second = replace(SECOND, method=replace(PRIVATE, lora=lora), after=FIRST)
    third = replace(FIRST, label="third", seed=3, after=second)
    told: list[str] = []
    chain = [task(base, tmp_path, one) for one in (FIRST, second, third)]
    train_all(chain[2:], 1, lambda label, share: told.append(label))
    assert list(dict.fromkeys(told)) == ["open", "private", "third"]
    for i, one in enumerate(chain):
        found = kept(base, one.path)
        assert torch.equal(found, by_hand(base, (FIRST, second, third)[: i + 1]))
    apart = by_hand(base, (second,))
    assert not torch.equal(apart, kept(base, chain[1].path))


def test_an_idle_link_passes_the_weights_on(base: ModelFolder, tmp_path: Path) -> None:
    idle = Training("idle", (), TUNED, 4, after=FIRST)
    last = task(base, tmp_path, replace(SECOND, after=idle))
    train_all([last], 1, silent)
    assert torch.equal(kept(base, last.path), by_hand(base, (FIRST, last.training)))
    assert len(list(tmp_path.glob("trained-*"))) == 2
