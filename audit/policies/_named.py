"""Find policies by name: the folder is the registry, audit/policies/digits.py is `digits`."""

from __future__ import annotations

import importlib
from pathlib import Path

from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import pairs
from audit.core.policy import Policy
from audit.policies._missing import Missing


def names() -> list[str]:
    """Return the names of all policies, without importing them."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(path.stem for path in files if not path.stem.startswith("_"))


def source_of(name: str) -> Path:
    """Return the file of a policy."""
    return Path(__file__).parent / f"{name}.py"


def policy_class(name: str) -> type[Policy]:
    """Import the policy in the file of this name. Raises UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"unknown policy {name!r}{did_you_mean(name, names())}")
    module = importlib.import_module(f"audit.policies.{name}")
    (policy,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Policy)
        and value.__module__ == module.__name__
    ]
    return policy


def named(text: str) -> Policy:
    """Make the policy that `NAME[:ARGUMENT][,key=value,…]` describes.

    `miss=RATE` makes it miss this share of the values (0 ≤ RATE < 1). Raises UsageError.
    """
    head, *words = (part.strip() for part in text.split(","))
    name, colon, argument = (part.strip() for part in head.partition(":"))
    cls = policy_class(name)
    if colon and not cls.argument:
        raise UsageError(f"policy {name} takes no argument; write {name}")
    if not argument and (colon or (cls.argument and cls.argument_needed)):
        raise UsageError(f"policy {name} has no argument; write {name}:{cls.argument}")
    options = pairs(words, ("miss", *cls.options), f"policy {name}")
    rate = _rate(name, options.pop("miss", "0"))
    policy = cls.parse(argument, options)
    return Missing(policy, rate) if rate else policy


def _rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise UsageError(f"policy {name}: miss is {text!r}; expected a number") from None
    if not 0 <= rate < 1:
        raise UsageError(f"policy {name}: miss is {text}; it must be at least 0 and below 1")
    return rate
