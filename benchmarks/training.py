"""Compares the cost of training M small members with that of one model on the same tokens.

    python benchmarks/training.py [--members 1 8 64] [--workers 1 2] [--epochs 24]

The private users of the embedded corpus are divided among M members. Each is trained on its users'
records with the embedded model's recipe, like the teachers of an ensemble. Every figure is for a
fresh process and its workers, including their start. Wall-clock time relative to one model with the
same workers must be at most 1.5; on a shared machine CPU time is more reliable. The number of steps
shows the recipe's share: the last batch of a member is seldom full. Memory is the peak of the
largest process and must not grow with M.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.randomness import derived_seed
from audit.core.training import Training
from audit.corpora import loading
from audit.models.loading import describe
from audit.plan.resolve import default_recipe
from audit.train.task import Task
from audit.train.train import train_all

AT_MOST = 1.5


@dataclass(frozen=True)
class Cost:
    """Seconds of wall-clock and CPU time, and the peak of the largest process in bytes."""

    wall: float
    cpu: float
    peak: float


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--members", type=int, nargs="+", default=[1, 8, 64])
    words.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    words.add_argument("--epochs", type=int, default=24)
    options = words.parse_args()
    print(
        f"{'workers':>7}{'members':>9}{'steps':>8}{'wall s':>8}{'':>7}{'CPU s':>8}{'':>7}{'MB':>6}"
    )
    for workers in options.workers:
        one = None
        for members in options.members:
            cost = in_a_fresh_process(members, workers, options.epochs)
            one = one or cost
            ratio = cost.wall / one.wall
            print(
                f"{workers:>7}{members:>9}{steps(members, options.epochs):>8,}{cost.wall:>8.1f}"
                f"{ratio:>6.2f}×{cost.cpu:>8.1f}{cost.cpu / one.cpu:>6.2f}×{cost.peak / 1e6:>6.0f}"
                f"{'  more than 1.5' if ratio > AT_MOST else ''}",
                flush=True,
            )


def in_a_fresh_process(members: int, workers: int, epochs: int) -> Cost:
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(spent, members, workers, epochs).result()


def spent(members: int, workers: int, epochs: int) -> Cost:
    import torch
    import transformers  # already loaded in every process of a run

    torch.set_num_threads(1)
    assert transformers.__version__
    with tempfile.TemporaryDirectory() as stages:
        tasks = [
            Task(training, describe("embedded", EMBEDDED_FOLDER), "cpu", 1, Path(stages))
            for training in trainings(members, epochs)
        ]
        start, used = time.perf_counter(), cpu()
        train_all(tasks, workers, lambda label, share: None)
        assert all(task.path.exists() for task in tasks)
        wall = time.perf_counter() - start
    return Cost(wall, cpu() - used, max(peak(who) for who in BOTH))


def trainings(members: int, epochs: int) -> Iterator[Training]:
    """Make one training for each member, on every M-th private user."""
    private = loading.load("helpdesk", EMBEDDED_FOLDER)
    model = describe("embedded", EMBEDDED_FOLDER)
    recipe = replace(default_recipe(model, private), epochs=epochs)
    texts: dict[str, list[str]] = {user: [] for user in private.users("private")}
    for record in private.of("private"):
        texts[record.user].append(record.text)
    for i in range(members):
        own = tuple(text for user in list(texts)[i::members] for text in texts[user])
        yield Training(f"member {i}", own, recipe, derived_seed(0, "benchmark", i))


def steps(members: int, epochs: int) -> int:
    import torch

    from audit.core.predictor import record_tokens
    from audit.models.loading import load_tokenizer
    from audit.models.training.fine_tuning import batches, cut

    tokenizer = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    count = 0
    for training in trainings(members, epochs):
        recipe = training.method
        sequences = [record_tokens(tokenizer, text) for text in training.texts]
        rows = [row for sequence in sequences for row in cut(sequence, recipe.max_length)]
        count += sum(1 for _ in batches(rows, recipe.batch_tokens, torch.Generator()))
    return epochs * count


BOTH = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def cpu() -> float:
    uses = [resource.getrusage(who) for who in BOTH]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def peak(who: int) -> float:
    """Return the peak memory in bytes; Linux reports kilobytes."""
    return resource.getrusage(who).ru_maxrss * 1024.0


if __name__ == "__main__":
    main()
