"""Builds the defenses and attacks that a plan names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from audit.core import lora
from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.rules import check_size
from audit.core.secret import PLANTED
from audit.core.training import FineTuning
from audit.models.loading import LSTM
from audit.plan.plan import Chosen
from audit.plugins import registry

_FEWER = 4  # times fewer epochs
_CHEAPEST = "dp_sgd"  # with a promise for every user: one training, of somewhat longer steps


def defenses(
    texts: Sequence[str], epsilon: float | None, delta: float | None
) -> tuple[Chosen, ...]:
    """Build what `--defense` names. epsilon, delta: of every one that has them. UsageError."""
    if not texts:
        raise UsageError("no defense is named; add --defense NAME, or --defense all")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise UsageError(f"epsilon is {epsilon}; it must be above 0 and finite")
    check_size("epsilon", epsilon)
    texts = _all(texts, "defenses", lambda defense: not defense.external)
    given = {"epsilon": epsilon, "delta": delta}
    extra = {name: float(value) for name, value in given.items() if value is not None}
    built = [registry.build("defenses", text, Defense, extra) for text in texts]  # type: ignore[type-abstract]
    if epsilon is not None and not any(hasattr(d, "epsilon") for _, d in built):
        names = ", ".join(name for name, _ in built)
        raise UsageError(f"--epsilon was given, but no requested defense has one ({names})")
    return _once([Chosen(name, defense) for name, defense in built], "defense")


def with_references(chosen: Sequence[Chosen], names: Sequence[str]) -> tuple[Chosen, ...]:
    """Add the references that are not chosen already, and the controls of what is chosen."""
    built = [registry.build("defenses", name, Defense, {}) for name in names]  # type: ignore[type-abstract]
    if names:
        controls = [(one.name, control) for one in chosen for control in one.plugin.controls]
        built += dict.fromkeys(controls)
    there = [(one.name, one.plugin) for one in chosen]
    missing = [one for one in built if one not in there]
    return (*chosen, *(Chosen(name, defense, reference=True) for name, defense in missing))


def remedies(named: Sequence[str], recipe: FineTuning) -> tuple[str, ...]:
    """List what `--remedies` trains beside what is named, to see which of it closes a leak.

    Deduplication, fewer epochs, and the cheapest defense with a promise for users.
    """
    fewer = max(1, recipe.epochs // _FEWER)
    shorter = [f"none:epochs={fewer}"] if fewer < recipe.epochs else []
    promising = any(text.partition(":")[0].strip() in (_CHEAPEST, "all") for text in named)
    wanted = ["none:dedup=near", *shorter, *([] if promising else [_CHEAPEST])]
    return tuple(text for text in wanted if text not in named)


def adapting(text: str, model: ModelFolder) -> ModelFolder:
    """Have what is trained on a model be adapters, as `--lora` words them. Raises UsageError."""
    if model.kind == LSTM:
        raise UsageError("--lora: an LSTM is trained from scratch; adapters need a transformer")
    return dataclasses.replace(model, lora=lora.parsed(text))


def attacks(texts: Sequence[str], written: bool, planted: AbstractSet[str]) -> tuple[Chosen, ...]:
    """Build what `--attack` names. Raises UsageError.

    `all` is what `fitting` lists.
    """
    if not texts:
        raise UsageError("no attack is named; add --attack NAME, or --attack all")
    texts = _all(texts, "attacks", lambda attack: _fits(attack, written, planted))
    built = [registry.build("attacks", text, Attack, {}) for text in texts]  # type: ignore[type-abstract]
    return _once([Chosen(name, attack) for name, attack in built], "attack")


def fitting(written: bool, planted: AbstractSet[str]) -> Sequence[str]:
    """List every attack on one of the planted kinds of secrets; those on texts only where
    `written`, which means that only texts are released.
    """
    return _all(["all"], "attacks", lambda attack: _fits(attack, written, planted))


def fewest_kinds(texts: Sequence[str]) -> tuple[str, ...]:
    """List few kinds of secrets such that every named attack has one, the usual ones first."""
    if "all" in texts:
        return PLANTED
    ancestor: Any = Attack
    attacked = [registry.plugin("attacks", text.partition(":")[0].strip(), ancestor).kinds
                for text in texts]  # fmt: skip
    firsts = (next((kind for kind in PLANTED if kind in kinds), "") for kinds in attacked)
    return tuple(dict.fromkeys(filter(None, firsts))) or PLANTED


def _fits(attack: type[Attack], written: bool, planted: AbstractSet[str]) -> bool:
    return (written or not attack.on_texts) and not planted.isdisjoint(attack.kinds)


def _all(texts: Sequence[str], kind: str, fits: Callable[[Any], bool]) -> Sequence[str]:
    """Replace `all` by every plugin that is not named and fits."""
    if "all" not in texts:
        return texts
    named = [text for text in texts if text != "all"]
    have = {text.partition(":")[0].strip() for text in named}
    more = [name for name in registry.names(kind) if name not in have]
    ancestor: Any = Defense if kind == "defenses" else Attack
    return [*named, *(name for name in more if fits(registry.plugin(kind, name, ancestor)))]


def _once(chosen: Sequence[Chosen], kind: str) -> tuple[Chosen, ...]:
    labels = [c.label for c in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{kind} {label} is named twice; once is enough")
    return tuple(chosen)
