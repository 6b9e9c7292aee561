"""Builds every prediction service from toy models: the project's, by listing, and the docs'."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.contract.toys import ALPHABET, Bigram, CharacterTokenizer
from audit.core.corpus import Corpus, Population, Record
from audit.core.defense import Defense
from audit.core.law import Lawful
from audit.core.model import ModelFolder
from audit.core.release import NoJournal
from audit.core.training import Trained
from audit.models.training.fine_tuning import Recipe
from audit.plugins import registry
from tests.defenses.copying_model import Copier

MODEL = ModelFolder("toy", Path("toy"), "", 1, 8, 300, blocks=2)
RECIPE = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=64, max_length=32)
K, BUDGET = 4, 37  # parts, and queries of a session: a conversation has more

# settings beside the defaults: other accounts, other charges
VARIANTS = {
    "submix that stops": ("submix", {"epsilon": 0.3, "beta": 0.05}),
    "submix tempered": ("submix", {"clip": 0.5, "temperature": 0.7, "alpha": 3.0}),
    "gnmax by data": ("gnmax", {"epsilon": 1.0, "noise_multiplier": 1.2, "charge": "data"}),
    "gnmax of given noise": ("gnmax", {"epsilon": None, "noise_multiplier": 3.0}),
    "pmixed of all": ("pmixed", {"q": 1.0, "epsilon": 50.0}),
    "capped_submix with a filter": ("capped_submix", {"epsilon": 0.1, "multiple": 5.0}),
    "invisible_ink of order 8": ("invisible_ink", {"alpha": 8.0}),
}


def has_parts(name: str) -> bool:
    fields = {field.name for field in dataclasses.fields(class_of(name))}  # type: ignore[arg-type]
    return {"k", "budget"} <= fields


def class_of(name: str) -> Any:
    return registry.plugin("defenses", name, Defense)  # type: ignore[type-abstract]


ENSEMBLES = [name for name in registry.names("defenses") if has_parts(name)]
PROMPTS, STRANGER = "invisible_ink_prompts", "ballot of the docs"
CASES = [*ENSEMBLES, *VARIANTS, PROMPTS, STRANGER]


def bigram(seed: int, spread: float = 1.0, vocabulary: int = 6) -> Bigram:
    logits = spread * np.random.default_rng(seed).normal(size=(vocabulary, vocabulary))
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return Bigram(table, CharacterTokenizer(ALPHABET[:vocabulary]))


def corpus(users: int, records: int = 2) -> Corpus:
    """Users u0, u1, … of so many records; the texts of a user are of one letter."""
    own = (
        Record(f"u{i}", ALPHABET[1 + i % 20] * (2 + j), split="private")
        for i in range(users)
        for j in range(records)
    )
    return Corpus("toy", tuple(own), public_size=Population(users, users * records))


@dataclass(frozen=True)
class Case:
    """A service and its settings. cls: the defense."""

    cls: Any
    settings: dict[str, Any]

    @property
    def of_parts(self) -> bool:
        return "k" in {field.name for field in dataclasses.fields(self.cls)}

    def paying(self, epsilon: float) -> dict[str, float]:
        """Another ε, where it does not follow from the noise."""
        return {} if self.settings.get("epsilon", epsilon) is None else {"epsilon": epsilon}

    def defense(self, **changed: Any) -> Any:
        own = {"k": K, "budget": BUDGET}
        if not self.of_parts:  # one batch of all six users
            own = {"references": 6, "tokens": changed.pop("budget", BUDGET)}
        return self.cls(**{**own, **self.settings, **changed})

    def release(self, spread: float = 3.0, seed: int = 10, **changed: Any) -> Any:
        """The release of models drawn from a seed; a larger spread makes them surer."""
        defense = self.defense(**changed)
        trainings = defense.trainings(corpus(6), MODEL, RECIPE, 3)
        if not self.of_parts:
            public: Any = Copier(CharacterTokenizer(ALPHABET[:21]), max_length=300)
            return defense.release(public, [Trained(each, public) for each in trainings])
        models = (bigram(seed + i, spread) for i in range(len(trainings)))
        trained = [Trained(*each) for each in zip(trainings, models, strict=True)]
        return defense.release(bigram(1, 0.3), trained)


def case_of(name: str, stranger: Callable[[], Any]) -> Case:
    """The case of this name. stranger: gives the class of the docs' example."""
    if name == STRANGER:
        return Case(stranger(), {})
    defense, settings = VARIANTS.get(name, (name, {}))
    return Case(class_of(defense), settings)


def served(cls: Any, models: Sequence[Any], public: Any, **parameters: Any) -> Any:
    """The release of these models, one a part."""
    trained = [Trained(None, model) for model in models]  # type: ignore[arg-type]
    return cls(k=len(models), **parameters).release(public, trained)


def toy(cls: Any, k: int = 4, spread: float = 3.0, **parameters: Any) -> Any:
    """The release of k random models, one a part."""
    return served(cls, [bigram(10 + i, spread) for i in range(k)], bigram(1, 0.3), **parameters)


def session(release: Any, journal: Any = None, seed: int = 5) -> Any:
    return release.open(np.random.default_rng(seed), journal or NoJournal())


def in_threes(members: Any, texts: Any, starts: Any, use: Any) -> list[Any]:
    """What an ensemble that holds the distributions of three queries at a time does."""
    pmfs = members.log_pmfs(texts, starts)
    places = [slice(i, min(i + 3, len(pmfs))) for i in range(0, len(pmfs), 3)]
    return [use(pmfs[at], at) for at in places]


def plain(answers: Sequence[Any]) -> list[Any]:
    return [(a.tokens, a.answered, a.top1.tolist(), *a.log_probs.tolist()) for a in answers]


def conversation(opened: Any) -> tuple[list[Any], int]:
    """All ways of asking, 47 queries: what came of it, and how many were answered."""
    said = opened.generate([[0], [0, 2], [0, 3, 1]] * 3, 3)
    said += opened.generate([[0, 4]], 4)
    said += opened.score([[0], [0, 1]] * 2, [[1, 2, 3], [4]] * 2)
    rows, answered = opened.distribution([[0, 2], [0]] * 2, [1, 2])
    answered += sum(a.answered for a in said)
    read = [*plain(said), rows.ravel().tolist()]
    if not isinstance(opened, Lawful):
        return read, answered
    law = opened.laws([[0], [0, 1]], [[1, 2, 3], [4]]).log_pmfs
    return [*read, law.ravel().tolist()], answered + len(law)
