"""Checks of parameters that no single field decides, each with an error of one line."""

from __future__ import annotations

from audit.core.errors import UsageError
from audit.core.layers import ALL, blocks_of
from audit.core.model import ModelFolder


def check_noise(
    name: str,
    epsilon: float | None,
    given: float | None,
    key: str = "noise_multiplier",
    average: float | None = None,
) -> None:
    """Raise UsageError unless exactly one of ε, the noise and an average ε of phrases is given.

    key: names the noise. average: `phrase_epsilon`, of defenses that have one.
    """
    if average is not None:
        if epsilon is not None or given is not None:
            raise UsageError(
                f"{name}: with phrase_epsilon={average:g} the noise follows from the phrases; "
                f"write epsilon=none beside it, and no {key}"
            )
        return
    if epsilon is not None and given is not None:
        raise UsageError(
            f"{name}: with {key}={given:g} ε follows from the noise; write epsilon=none beside it"
        )
    if epsilon is None and given is None:
        raise UsageError(f"{name}: epsilon is none; give {key} instead")


def check_layers(name: str, layers: str, model: ModelFolder, key: str = "train") -> None:
    """Raise UsageError for more blocks than the model has, or an LSTM, which has none."""
    if layers != ALL and not 1 <= blocks_of(layers) <= model.blocks:
        raise UsageError(
            f"{name}: {key}={layers}, but {model.name} has {model.blocks} blocks; lower N or use "
            f"{key}=all"
        )
