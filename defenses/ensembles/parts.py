"""Parts of the private data, and one training for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.layers import ALL
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed, stream
from audit.core.training import FineTuning, Training
from defenses.training.checks import check_layers
from defenses.training.partition import partition


class Settings(Protocol):
    """The parameters that decide the trainings of an ensemble.

    k: number of parts. train: layers that each part trains, "all" or "top:N".
    """

    @property
    def k(self) -> int: ...

    @property
    def train(self) -> str: ...


def texts_by_user(name: str, k: int, corpus: Corpus) -> dict[str, list[str]]:
    """Group private texts by user. Raises UsageError for more parts than users."""
    texts: dict[str, list[str]] = {}
    for record in corpus.of("private"):
        texts.setdefault(record.user, []).append(record.text)
    if k > len(texts):
        raise UsageError(f"{name}: k is {k}, but only {len(texts)} users are trained on; lower k")
    return texts


def even_parts(
    name: str, settings: Settings, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> tuple[Training, ...]:
    """Name one training for each of k parts of the users: random, even, the same as SubMix's.

    Defenses with equal settings share the models. Raises UsageError for more parts than users, or
    more blocks than the model has.
    """
    k, texts = settings.k, texts_by_user(name, settings.k, corpus)
    users = tuple(texts)
    order = [users[int(i)] for i in stream(seed, "submix", "partition").permutation(len(users))]
    parts = [[text for user in order[i::k] for text in texts[user]] for i in range(k)]
    return one_model_a_part(name, settings, parts, model, recipe, seed)


def hashed_parts(
    name: str, settings: Settings, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> tuple[Training, ...]:
    """Name one training a part. A user's part is independent of all other users.

    Defenses with equal settings share the models. Raises UsageError for more blocks than the model
    has.
    """
    records = corpus.of("private")
    key = derived_seed(seed, "capped_submix", "parts")  # one key for all of them
    parts: list[list[str]] = [[] for _ in range(settings.k)]
    for record, part in zip(records, partition(records, settings.k, 1, key), strict=True):
        parts[part].append(record.text)
    return one_model_a_part(name, settings, parts, model, recipe, seed)


def one_model_a_part(
    name: str,
    settings: Settings,
    parts: Sequence[Sequence[str]],
    model: ModelFolder,
    recipe: FineTuning,
    seed: int,
) -> tuple[Training, ...]:
    """Name one training for the texts of each part; a part without texts keeps the public model.

    Raises UsageError for more blocks than the model has.
    """
    check_layers(name, settings.train, model)
    if settings.train != ALL:
        recipe = replace(recipe, layers=settings.train)
    return tuple(
        Training(
            label=f"{name} part {i + 1}/{len(parts)}",
            texts=tuple(texts),
            method=recipe,
            seed=derived_seed(seed, "ensemble", "member", i),
        )
        for i, texts in enumerate(parts)
    )
