"""Rules for parameters, written beside the field: `k: Annotated[int, at_least(2)] = 8`."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from audit.core.errors import UsageError


@dataclass(frozen=True)
class Rule:
    """A condition on a value. words: the end of the sentence "it must be …"."""

    words: str
    holds: Callable[[Any], bool]


def at_least(least: float) -> Rule:
    """Accept numbers from `least` on."""
    return Rule(f"at least {least}", lambda value: value >= least)


def between(least: int, most: int) -> Rule:
    """Accept numbers in a range, its ends included."""
    return Rule(f"at least {least} and at most {most:,}", lambda value: least <= value <= most)


def one_of(*choices: str) -> Rule:
    """Accept these words."""
    return Rule(" or ".join(choices), choices.__contains__)


SMALLEST = 1e-300  # below, a double loses digits, and then all of them
LARGEST = 10**9  # of any whole number but a seed: more of anything is a slip
POSITIVE = Rule("above 0 and finite", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Rule("at least 0 and finite", lambda value: 0 <= value < math.inf)
SHARE = Rule("above 0 and at most 1", lambda value: 0 < value <= 1)
PROBABILITY = Rule("above 0 and below 1", lambda value: 0 < value < 1)
# metadata of a parameter that came later: at its default a plan leaves it out and is what it was
UNSAID = {"unsaid": True}
VISIBLE = Rule("a word or sign that can be seen, such as _", lambda value: bool(value.strip()))


def check_fields(name: str, settings: Any) -> None:
    """Raise UsageError for the first field that breaks its rule; None breaks none.

    Numbers that nothing can be counted or computed with break a rule that every field has.
    """
    cls: Any = type(settings)
    for key, rule in rules_of(cls):
        value = getattr(settings, key)
        check_size(f"{name}: {key}", value)
        if value is not None and not rule.holds(value):
            raise broken(name, key, value, rule.words)


def check_size(where: str, value: object) -> None:
    """Raise UsageError for a whole number above LARGEST, or one so near 0 that it loses digits."""
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UsageError(f"{where} is too large a number; it must be at most {LARGEST:,}")
    if isinstance(value, float) and 0 < abs(value) < SMALLEST:
        raise UsageError(f"{where} is {value}; it must be at least {SMALLEST:g}")


def broken(name: str, key: str, value: object, words: str) -> UsageError:
    """Return the error for a parameter out of range, on one line."""
    shown = value if str(value).strip() else "empty"
    return UsageError(f"{name}: {key} is {shown}; it must be {words}")


@cache
def rules_of(cls: type) -> tuple[tuple[str, Rule], ...]:
    """Return (field, rule) for each annotated rule of a class, in the order of its fields."""
    return tuple(
        (key, rule)
        for key, hint in typing.get_type_hints(cls, include_extras=True).items()
        for rule in getattr(hint, "__metadata__", ())
        if isinstance(rule, Rule)
    )
