"""Resolves what a plan leaves open: defenses, attacks, planting, the training recipe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, get_type_hints

import torch

from audit import policies
from audit.core.attack import Attack
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError, did_you_mean
from audit.core.model import ModelFolder
from audit.core.secret import Planting
from audit.models.training.fine_tuning import Recipe
from audit.plan.plan import REFERENCES, Chosen, Plan
from audit.plugins import registry


def make_plan(settings: dict[str, Any], corpus: Corpus, model: ModelFolder) -> Plan:
    """Resolves every default. Raises UsageError for whatever cannot be run."""
    planting = _table(Planting, settings.get("planting", {}), _planting_default(corpus))
    users = len(corpus.users("private"))
    references = REFERENCES if settings.get("references", True) else ()
    plan = plan_of(settings, corpus, model, users, references, planting)
    for chosen in plan.defenses:
        if chosen.plugin.finished:
            raise UsageError(
                f"{chosen.name}: audits one finished model, by `audit run --defense {chosen.name} "
                "--model MODEL --secrets MANIFEST`; it has no place in a sweep"
            )
    return plan


def plan_of(
    settings: dict[str, Any],
    corpus: Corpus,
    model: ModelFolder,
    users: int,
    references: Sequence[str],
    planting: Planting | None,
) -> Plan:
    """The plan of these settings, its defaults resolved, without what they say of references and
    planting.

    users: N of the default δ. Raises UsageError.
    """
    epsilon = settings.get("epsilon")
    delta = settings.get("delta")
    if delta is not None and not 0 <= delta < 1:
        raise UsageError(f"delta is {delta}; it must be at least 0 and below 1")
    defenses = _defenses(settings["defense"], epsilon, delta, references)
    attacks = _attacks(settings["attack"])
    for name in ("utility_tokens", "threads"):
        if settings.get(name, 1) < 1:
            raise UsageError(f"{name} is {settings[name]}; it must be at least 1")
    training = _table(Recipe, settings.get("training", {}), recipe_for(model))
    if training.max_length > model.max_length:
        raise UsageError(
            f"training: max_length is {training.max_length}, but the model reads {model.max_length}"
        )
    return Plan(
        defenses=defenses,
        attacks=attacks,
        corpus=corpus,
        model=model,
        seed=settings.get("seed", 0),
        delta=1 / (10 * users) if delta is None else delta,
        policy=policies.named(settings.get("policy", "digits")),
        device=_device(settings.get("device", "auto")),
        references=bool(references),
        utility_tokens=settings.get("utility_tokens", 1024),
        threads=settings.get("threads", 1),
        planting=planting,
        training=training,
    )


def _defenses(
    texts: Sequence[str], epsilon: float | None, delta: float | None, references: Sequence[str]
) -> tuple[Chosen, ...]:
    if not texts:
        raise UsageError("no defense was asked for; add --defense NAME, or --defense all")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise UsageError(f"epsilon is {epsilon}; it must be above 0 and finite")
    texts = _all(texts, "defenses")
    given = {"epsilon": epsilon, "delta": delta}
    extra = {name: float(value) for name, value in given.items() if value is not None}
    built = [registry.build("defenses", text, Defense, extra) for text in texts]  # type: ignore[type-abstract]
    if epsilon is not None and not any(hasattr(d, "epsilon") for _, d in built):
        names = ", ".join(name for name, _ in built)
        raise UsageError(f"--epsilon was given, but no requested defense has one ({names})")
    chosen = [Chosen(name, defense) for name, defense in built]
    for name in references:
        if all(c.name != name for c in chosen):
            _, defense = registry.build("defenses", name, Defense, {})  # type: ignore[type-abstract]
            chosen.append(Chosen(name, defense, reference=True))
    return _once(chosen, "defense")


def _attacks(texts: Sequence[str]) -> tuple[Chosen, ...]:
    if not texts:
        raise UsageError("no attack was asked for; add --attack NAME, or --attack all")
    texts = _all(texts, "attacks")
    built = [registry.build("attacks", text, Attack, {}) for text in texts]  # type: ignore[type-abstract]
    return _once([Chosen(name, attack) for name, attack in built], "attack")


def _all(texts: Sequence[str], kind: str) -> Sequence[str]:
    """`all` stands for every plugin that is not asked for by name, and trains or attacks."""
    if "all" not in texts:
        return texts
    named = [text for text in texts if text != "all"]
    have = {text.partition(":")[0].strip() for text in named}
    others = [name for name in registry.names(kind) if name not in have]
    if kind == "defenses":
        others = [n for n in others if not registry.plugin(kind, n, Defense).finished]  # type: ignore[type-abstract]
    return [*named, *others]


def _once(chosen: Sequence[Chosen], kind: str) -> tuple[Chosen, ...]:
    labels = [c.label for c in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{kind} {label} was asked for twice; once is enough")
    return tuple(chosen)


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device is {name!r}; it can be auto, cpu or cuda")
    if name == "cpu":
        return name

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise UsageError("device is cuda, but torch sees no CUDA device here; use --device cpu")
    return "cpu"


def _planting_default(corpus: Corpus) -> Planting:
    """All private users of the embedded corpus, else min(100, a fifth of them), at least two."""
    private = len(corpus.users("private"))
    if private < 2:
        raise UsageError(f"corpus {corpus.name}: {private} private user; coins need at least 2")
    own = max(2, min(100, private // 5))
    return Planting(users=private if corpus.embedded else own)


def recipe_for(model: ModelFolder) -> Recipe:
    """The training recipe: found by experiment for the embedded models, usual values for others."""
    if model.embedded:
        return Recipe(
            epochs=24, learning_rate=1.5e-3, batch_tokens=128, max_length=model.max_length
        )
    if model.kind == "lstm":  # from scratch, which takes longer
        return Recipe(epochs=20, learning_rate=1e-2, batch_tokens=1024, max_length=model.max_length)
    rate = 1e-3 if model.parameters < 10_000_000 else 1e-4
    return Recipe(epochs=3, learning_rate=rate, batch_tokens=2048, max_length=model.max_length)


def _table(cls: type[Any], table: dict[str, Any], default: Any) -> Any:
    """A dataclass from a plan file's table over a default. Raises UsageError for unknown keys."""
    hints = get_type_hints(cls)
    name = cls.__name__.lower().replace("recipe", "training")
    values = {}
    for key, value in table.items():
        if key not in hints:
            raise UsageError(f"{name}: unknown key {key!r}{did_you_mean(key, list(hints))}")
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        values[key] = registry.convert(text, hints[key], f"{name}: {key}")
    return dataclasses.replace(default, **values)
