"""Parameters out of range, each in one line."""

from __future__ import annotations

import math

from audit.core.errors import UsageError
from audit.core.layers import ALL, blocks_of, is_layers
from audit.core.model import ModelFolder


def refused(name: str, given: object, key: str, rule: str) -> UsageError:
    """A parameter out of range, in one line."""
    return UsageError(f"{name}: {key} is {given}; it must be {rule}")


def check_noise(
    name: str, epsilon: float | None, given: float | None, key: str = "noise_multiplier"
) -> None:
    """Exactly one of ε and the noise is given; `key` names the noise. Raises UsageError."""
    if epsilon is not None and given is not None:
        raise UsageError(
            f"{name}: with {key}={given:g} ε follows from the noise; write epsilon=none beside it"
        )
    if epsilon is None and given is None:
        raise UsageError(f"{name}: epsilon is none; give {key} instead")
    for word, value in (("epsilon", epsilon), (key, given)):
        if value is not None and not 0 < value < math.inf:
            raise refused(name, value, word, "above 0 and finite")


def check_least(defense: object, name: str, least: int, *keys: str) -> None:
    """Raises UsageError unless each of these fields is None or at least `least`."""
    for key in keys:
        value = getattr(defense, key)
        if value is not None and not value >= least:
            raise refused(name, value, key, f"at least {least}")


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


def check_layers(name: str, layers: str, model: ModelFolder, key: str = "train") -> None:
    """Raises UsageError for more blocks than the model has, or an LSTM, which has none."""
    if layers != ALL and not 1 <= blocks_of(layers) <= model.blocks:
        raise UsageError(
            f"{name}: {key}={layers}, but {model.name} has {model.blocks} blocks; lower N or use "
            f"{key}=all"
        )


def check_train(name: str, layers: str, key: str = "train") -> None:
    """Raises UsageError unless it says which layers are trained."""
    if not is_layers(layers):
        raise refused(name, layers, key, "all or top:N")
