"""Parameters out of range, each in one line."""

from __future__ import annotations

import math

from audit.errors import UsageError


def refused(name: str, given: object, key: str, rule: str) -> UsageError:
    """A parameter out of range, in one line."""
    return UsageError(f"{name}: {key} is {given}; it must be {rule}")


def check_noise(name: str, epsilon: float | None, noise_multiplier: float | None) -> None:
    """Exactly one of ε and σ is given. Raises UsageError."""
    if epsilon is not None and noise_multiplier is not None:
        raise UsageError(
            f"{name}: with noise_multiplier={noise_multiplier:g} ε follows from the noise; "
            "write epsilon=none beside it"
        )
    if epsilon is None and noise_multiplier is None:
        raise UsageError(f"{name}: epsilon is none; give noise_multiplier instead")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise refused(name, epsilon, "epsilon", "above 0 and finite")
    if noise_multiplier is not None and not 0 < noise_multiplier < math.inf:
        raise refused(name, noise_multiplier, "noise_multiplier", "above 0 and finite")


def check_positive(defense: object, name: str, *keys: str) -> None:
    """Raises UsageError unless each of these fields is None or above 0 and finite."""
    for key in keys:
        value = getattr(defense, key)
        if value is not None and not 0 < value < math.inf:
            raise refused(name, value, key, "above 0 and finite")


def check_delta(name: str, delta: float | None) -> None:
    """Raises UsageError unless δ is None or between 0 and 1, both excluded."""
    if delta is not None and not 0 < delta < 1:
        raise refused(name, delta, "delta", "above 0 and below 1")


def check_choice(defense: object, name: str, **choices: tuple[str, ...]) -> None:
    """Raises UsageError unless each of these fields has one of its values."""
    for key, allowed in choices.items():
        if getattr(defense, key) not in allowed:
            raise refused(name, getattr(defense, key), key, " or ".join(allowed))


def check_mask(name: str, mask: str) -> None:
    """Raises UsageError for a mask that cannot be seen."""
    if not mask.strip():
        raise UsageError(f"{name}: mask is empty; give a word or sign, such as mask=_")
