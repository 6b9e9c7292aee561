"""Tasks: keyed by what determines their weights, trained once, the same bytes in any place."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit import training
from audit.defense import Training
from audit.embedded import EMBEDDED_FOLDER
from audit.models.fine_tuning import Recipe
from audit.models.loading import ModelFolder, describe, load_weights
from audit.training import Task, train_all

RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=16, max_length=32)  # several steps
TEXTS = ("My code is #40718.", "Good morning! My parcel has not arrived.", "Thank you, bye.")


def silent(label: str, share: float) -> None:
    return None


@pytest.fixture(scope="module")
def base() -> ModelFolder:
    return describe("embedded", EMBEDDED_FOLDER)


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
    }
    for name in RECIPE.__dataclass_fields__:
        value = getattr(RECIPE, name)
        other = value + 1 if isinstance(value, int) else value / 2 + 0.001
        recipe = replace(RECIPE, **{name: other})
        others[f"another {name}"] = with_training(one, method=recipe)
    keys = {name: other.key for name, other in others.items()}
    assert one.key not in keys.values(), keys
    assert len(set(keys.values())) == len(keys), keys


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_another_version_of_a_library_changes_the_key(
    base: ModelFolder, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    from importlib import metadata

    one = task(base, Path("stages"))
    before, real = one.key, metadata.version
    monkeypatch.setattr(metadata, "version", lambda n: "9.9" if n == package else real(n))
    assert one.key != before


def test_nothing_else_changes_the_key(base: ModelFolder) -> None:
    one = task(base, Path("stages"))
    assert with_training(one, label="submix part 3").key == one.key
    assert replace(one, stages=Path("elsewhere")).key == one.key
    assert replace(one, base=replace(base, name="copy", path=Path("copy"))).key == one.key
    assert one.path == Path("stages") / f"model-{one.key}.safetensors"


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """What would have been trained, in order; each leaves a file."""
    seen: list[Task] = []

    def note(one: Task, report: Any) -> None:
        seen.append(one)
        one.path.write_bytes(b"weights")

    monkeypatch.setattr(training, "_train", note)
    return seen


def test_without_texts_nothing_is_trained(
    base: ModelFolder, tmp_path: Path, trained: list[Task]
) -> None:
    train_all([task(base, tmp_path, texts=())], 1, silent)
    train_all([], 1, silent)
    assert trained == [] and list(tmp_path.iterdir()) == []


def test_a_stage_that_is_there_is_not_trained_again(
    base: ModelFolder, tmp_path: Path, trained: list[Task]
) -> None:
    there, missing = task(base, tmp_path, seed=1), task(base, tmp_path, seed=2)
    there.path.write_bytes(b"kept")
    train_all([there, missing], 1, silent)
    assert trained == [missing]
    assert there.path.read_bytes() == b"kept"
    train_all([there, missing], 1, silent)
    assert trained == [missing]


def test_the_same_training_under_two_labels_is_done_once(
    base: ModelFolder, tmp_path: Path, trained: list[Task]
) -> None:
    one = task(base, tmp_path)
    train_all([one, with_training(one, label="again"), one], 1, silent)
    assert len(trained) == 1


def test_the_longest_is_trained_first(
    base: ModelFolder, tmp_path: Path, trained: list[Task]
) -> None:
    tasks = [task(base, tmp_path, texts=("a" * n,)) for n in (5, 50, 1, 20)]
    train_all(tasks, 1, silent)
    assert [len(one.training.texts[0]) for one in trained] == [50, 20, 5, 1]


@pytest.mark.parametrize(
    ("tasks", "workers", "expected"), [(3, 2, 2), (2, 8, 2), (1, 8, None), (3, 1, None)]
)
def test_no_more_workers_start_than_there_are_tasks(
    base: ModelFolder, tmp_path: Path, trained: list[Task], monkeypatch: pytest.MonkeyPatch,
    tasks: int, workers: int, expected: int | None,
) -> None:  # fmt: skip
    pools: list[int] = []
    monkeypatch.setattr(training, "_train_in_pool", lambda ts, count, report: pools.append(count))
    train_all([task(base, tmp_path, seed=i) for i in range(tasks)], workers, silent)
    assert pools == ([] if expected is None else [expected])
    assert len(trained) == (tasks if expected is None else 0)


def test_training_changes_the_model_and_leaves_one_whole_file(
    base: ModelFolder, tmp_path: Path
) -> None:
    from safetensors.torch import load_model

    told: list[tuple[str, float]] = []
    one = task(base, tmp_path)
    train_all([one], 1, lambda label, share: told.append((label, share)))
    assert list(tmp_path.iterdir()) == [one.path]
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


def test_a_stage_lies_in_a_folder_of_its_owner_alone(base: ModelFolder, tmp_path: Path) -> None:
    from audit.folder import RunFolder

    folder = RunFolder(tmp_path / "run", "hash")
    with folder.held({}):
        one = task(base, folder.stages)
        train_all([one], 1, silent)
    assert os.stat(folder.stages).st_mode & 0o077 == 0
    assert one.path.exists()


@pytest.mark.slow
def test_a_pool_and_this_process_give_the_same_bytes(base: ModelFolder, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    contents = []
    for stages, workers in ((here, 1), (there, 2)):
        stages.mkdir()
        tasks = [task(base, stages, seed) for seed in (1, 2)]
        train_all(tasks, workers, silent)
        contents.append([one.path.read_bytes() for one in tasks])
        assert len(list(stages.iterdir())) == 2
    assert contents[0] == contents[1]
    assert contents[0][0] != contents[0][1]  # and the seed does something


@pytest.mark.slow
def test_an_error_in_a_worker_reaches_the_parent_and_ends_the_pool(
    base: ModelFolder, tmp_path: Path
) -> None:
    from audit.errors import UsageError

    broken = replace(base, path=tmp_path / "nowhere")
    tasks = [task(broken, tmp_path, seed) for seed in (1, 2)]
    with pytest.raises(UsageError, match="nowhere"):
        train_all(tasks, 2, silent)
    assert threading.active_count() < 10
