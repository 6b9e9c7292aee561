"""Rules beside fields: what they accept, the line they raise, and that every default keeps them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

import pytest

from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.layers import LAYERS
from audit.core.rules import (
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    SHARE,
    VISIBLE,
    Rule,
    at_least,
    check_fields,
    one_of,
    rules_of,
)
from audit.models.training.fine_tuning import Recipe
from audit.plugins import registry


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (at_least(2), (2, 3, math.inf), (1, -5, math.nan)),
        (POSITIVE, (1e-9, 5), (0, -1, math.inf, math.nan)),
        (NOT_NEGATIVE, (0, 5), (-1e-9, math.inf, math.nan)),
        (SHARE, (1e-9, 1), (0, 1.1, math.nan)),
        (PROBABILITY, (0.5,), (0, 1, math.nan)),
        (one_of("a", "b"), ("a", "b"), ("c", "", "ab")),
        (VISIBLE, ("_", "a b"), ("", " ", "\t")),
        (LAYERS, ("all", "top:2"), ("top", "top:", "top:-1", "2")),
    ],
)
def test_a_rule_accepts_the_ends_of_its_range(
    rule: Rule, good: tuple[Any], bad: tuple[Any]
) -> None:
    assert [rule.holds(value) for value in good] == [True] * len(good)
    assert [rule.holds(value) for value in bad] == [False] * len(bad)


@dataclass(frozen=True)
class Settings:
    k: Annotated[int, at_least(2)] = 8
    rate: Annotated[float | None, POSITIVE] = None
    mask: Annotated[str, VISIBLE] = "_"
    free: int = -1


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"k": 1, "rate": 0.0}, "toy: k is 1; it must be at least 2"),
        ({"rate": math.inf}, "toy: rate is inf; it must be above 0 and finite"),
        ({"mask": " "}, "toy: mask is empty; it must be a word or sign that can be seen"),
    ],
)
def test_the_first_broken_rule_is_one_line(values: dict[str, Any], line: str) -> None:
    check_fields("toy", Settings())
    with pytest.raises(UsageError) as caught:
        check_fields("toy", Settings(**values))
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)


def test_rules_do_not_change_the_types_that_a_plan_reads() -> None:
    plain = {"k": int, "rate": float | None, "mask": str, "free": int}
    assert get_type_hints(Settings) == plain
    assert [key for key, _ in rules_of(Settings)] == ["k", "rate", "mask"]


@pytest.mark.parametrize("kind", ["defenses", "attacks"])
def test_every_rule_of_a_plugin_is_enforced(kind: str) -> None:
    ancestor: Any = {"defenses": Defense, "attacks": Attack}[kind]
    broken = {int: -1, float: math.nan, str: " "}
    tried = 0
    for name in registry.names(kind):
        plugin = registry.plugin(kind, name, ancestor)
        hints = get_type_hints(plugin)
        for key, _ in rules_of(plugin):
            options = getattr(hints[key], "__args__", (hints[key],))
            with pytest.raises(UsageError, match=f"{name}: {key} is "):
                replace(plugin(), **{key: broken[options[0]]})
            tried += 1
    assert tried > 10


def test_every_rule_of_a_training_is_enforced() -> None:
    good = Recipe(epochs=0, learning_rate=1e-3, batch_tokens=1, max_length=1, warmup=1.0)
    broken: dict[str, Any] = {"epochs": -1, "learning_rate": 0.0, "batch_tokens": 0}
    broken |= {"max_length": 0, "warmup": 1.1, "weight_decay": -0.1, "beta2": 1.0, "layers": "top"}
    for key, value in broken.items():
        with pytest.raises(UsageError, match=f"training: {key} is "):
            replace(good, **{key: value})
