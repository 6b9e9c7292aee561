"""Tasks: keyed by what determines their weights, trained once, the same bytes in any place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.lora import Lora
from audit.core.model import ModelFolder
from audit.core.training import Training
from audit.measure.releases import _trained
from audit.models.causal import CausalLM
from audit.models.loading import load_tokenizer, load_weights
from audit.models.training.best_step import opening
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.fine_tuning import Recipe, next_token_loss
from audit.train import task as task_module
from audit.train import train
from audit.train.task import Task
from audit.train.train import train_all
from tests.train.conftest import silent

RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=16, max_length=32)  # several steps
TEXTS = ("My code is #40718.", "Good morning! My parcel has not arrived.", "Thank you, bye.")


def task(base: ModelFolder, stages: Path, seed: int = 1, texts: Sequence[str] = TEXTS) -> Task:
    return Task(Training("none", tuple(texts), RECIPE, seed), base, "cpu", 1, stages)


def with_training(one: Task, **changes: Any) -> Task:
    return replace(one, training=replace(one.training, **changes))


def test_every_determinant_of_the_weights_changes_the_key(base: ModelFolder) -> None:
    one = task(base, Path("stages"))
    others = {
        "another text": with_training(one, texts=(*TEXTS[:-1], "Thank you, bye!")),
        "a text more": with_training(one, texts=(*TEXTS, "")),
        "another order": with_training(one, texts=TEXTS[::-1]),
        "texts run together": with_training(one, texts=(TEXTS[0] + TEXTS[1], TEXTS[2])),
        "another seed": with_training(one, seed=2),
        "another model": replace(one, base=replace(base, sha256="0" * 64)),
        "another device": replace(one, device="cuda"),
        "more threads": replace(one, threads=2),
        "adapters": replace(one, base=replace(base, lora=Lora())),
        "another rank": replace(one, base=replace(base, lora=Lora(r=4))),
        "another scale": replace(one, base=replace(base, lora=Lora(alpha=8))),
        "other targets": replace(one, base=replace(base, lora=Lora(targets="all-linear"))),
    }
    keys = {name: other.key for name, other in others.items()}
    assert one.key not in keys.values(), keys
    assert len(set(keys.values())) == len(keys), keys


def test_versions_of_libraries_are_in_keys(
    base: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of adapters where there are any: it chooses layers, and draws the first factors."""
    from importlib import metadata

    plain, real = task(base, Path("stages")), metadata.version
    recipe = PrivateRecipe(Noise(1.0, 1.0), 0.5, 1, 3, 1e-3, 32, lora=2)
    rank = with_training(plain, method=recipe)
    adapted = (
        *(task(replace(base, lora=Lora()), Path("stages")), rank),
        with_training(plain, after=rank.training),
    )
    for package, one, changes in (
        *(("torch", plain, True), ("transformers", plain, True), ("peft", plain, False)),
        *(("peft", one, True) for one in adapted),
    ):
        before = replace(one).key
        with monkeypatch.context() as patch:
            patch.setattr(task_module, "version", lambda n, p=package: "9" if n == p else real(n))
            assert (replace(one).key != before) == changes, (package, one.training.label)


def test_nothing_else_changes_the_key(base: ModelFolder) -> None:
    one = task(base, Path("stages"))
    assert with_training(one, label="submix part 3").key == one.key
    assert replace(one, stages=Path("elsewhere")).key == one.key
    assert replace(one, base=replace(base, name="copy", path=Path("copy"))).key == one.key
    assert one.path == Path("stages") / f"trained-{one.key}.safetensors"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """What would have been trained, in order; each leaves a file."""
    seen: list[Task] = []

    def note(one: Task, report: Any) -> None:
        seen.append(one)
        one.path.write_bytes(b"weights")

    monkeypatch.setattr(train, "_train", note)
    return seen


def test_what_is_missing_is_trained_once_longest_first(
    base: ModelFolder, tmp_path: Path, trained: list[Task]
) -> None:
    there, *missing = (task(base, tmp_path, texts=("a" * n,)) for n in (9, 5, 50, 1, 20))
    there.path.write_bytes(b"kept")
    again = [with_training(one, label="again") for one in missing]
    for _ in range(2):
        train_all([there, *missing, *again, *missing], 1, silent)
        assert [len(one.training.texts[0]) for one in trained] == [50, 20, 5, 1]
        assert there.path.read_bytes() == b"kept"


def test_where_nothing_is_missing_no_place_is_opened(
    base: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = task(base, tmp_path)
    there.path.write_bytes(b"kept")
    monkeypatch.setattr(train, "open_workers", lambda workers: pytest.fail("open_workers"))
    train_all([there, task(base, tmp_path, texts=())], 1, silent)


def test_one_place_is_opened_for_all_rounds(
    base: ModelFolder, tmp_path: Path, trained: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from audit.train.workers.serial import Serial

    places: list[int | str] = []

    def open_workers(workers: int | str) -> Any:
        places.append(workers)
        return nullcontext(Serial())

    monkeypatch.setattr(train, "open_workers", open_workers)
    first = Training("first", TEXTS, RECIPE, 1)
    second = replace(first, label="second", after=first)
    third = replace(first, label="third", teachers=(first, second))
    train_all([Task(third, base, "cpu", 1, tmp_path)], 7, silent)
    assert places == [7]
    assert [one.training.label for one in trained] == ["first", "second", "third"]


def test_processes_without_divided_training_do_not_start(
    base: ModelFolder, tmp_path: Path, trained: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "together", lambda *_: pytest.fail("together"))
    with train.workers_for([task(base, tmp_path)], 1, processes=2) as place:
        train.train_on(place, [task(base, tmp_path)], silent)
    assert len(trained) == 1


def test_sources_are_the_weights_read(base: ModelFolder) -> None:
    first, idle = Training("first", TEXTS, RECIPE, 1), Training("idle", (), RECIPE, 2)
    one = Task(first, base, "cpu", 1, Path("s"))
    assert one.sources == ()
    for changes in (
        {"after": first},
        {"after": replace(idle, after=first)},  # handed on
        {"after": idle, "teachers": (first, idle, replace(first, label="the same"))},
    ):
        assert with_training(one, seed=3, **changes).sources == (one.path,)
    other = with_training(one, seed=4)
    both = with_training(one, seed=3, after=first, teachers=(other.training,))
    assert set(both.sources) == {one.path, other.path}


def test_training_leaves_counts_and_changed_weights(base: ModelFolder, tmp_path: Path) -> None:
    from safetensors.torch import load_model

    told: list[tuple[str, float]] = []
    one = task(base, tmp_path)
    train_all([one], 1, lambda label, share: told.append((label, share)))
    assert {*tmp_path.glob("*.*")} == {one.counted_path, one.path}
    assert told[-1] == ("none", 1.0)
    assert [share for _, share in told] == sorted(share for _, share in told)
    before, after = (load_weights(base, "cpu") for _ in range(2))
    load_model(after, str(one.path))
    moved = [
        float((a - b).abs().max().detach())
        for a, b in zip(before.parameters(), after.parameters(), strict=True)
    ]
    assert all(m > 0 for m in moved)
    assert torch.equal(after.lm_head.weight, after.transformer.wte.weight)  # still tied


def test_the_best_step_is_written_first(base: ModelFolder, tmp_path: Path) -> None:
    """A task is done with its own weights, so those of its best step are there by then."""
    overfits = replace(RECIPE, epochs=60, learning_rate=1e-2)
    one = with_training(task(base, tmp_path), method=overfits, heldout=("The parcel is late.",))
    train_all([one], 1, silent)
    assert one.best_path.stat().st_ctime_ns <= one.path.stat().st_ctime_ns  # of the renaming
    tokenizer, inner = load_tokenizer(base), load_weights(base, "cpu")
    found = _trained(CausalLM(inner, tokenizer, base.max_length), one)
    assert found.best is not None
    best, share = found.best
    assert 0 < share < 1
    rows = opening(one.training.heldout, tokenizer)
    with torch.no_grad():
        end, least = (float(next_token_loss(m.inner, rows)) for m in (found.model, best))  # type: ignore[attr-defined]
    assert least < end
    assert {*tmp_path.glob("*.*")} == {one.counted_path, one.best_path, one.path}
