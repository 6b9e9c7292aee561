"""Sizes of a model, from its description alone, without loading it."""

from __future__ import annotations

import math

from audit.core.model import ModelFolder

HEAD = 32  # width of an attention head
LARGE = 50_000_000  # parameters, from which on several threads compute a step
_THREADS = ((LARGE, 1), (500_000_000, 2), (2_000_000_000, 4))  # of smaller models
_MOST_THREADS = 8


def width_of(model: ModelFolder) -> int:
    """Solve 12·blocks·w² + vocabulary·w = parameters, rounded to whole heads."""
    a, b = 12 * max(1, model.blocks), model.vocabulary
    width = (math.sqrt(b * b + 4 * a * model.parameters) - b) / (2 * a)
    return max(1, round(width / HEAD)) * HEAD


def weights_of(model: ModelFolder) -> tuple[float, float]:
    """Count bytes: of a base that all trained models share, and of what each has of its own."""
    if model.lora is None:
        return 0.0, 4.0 * model.parameters
    stored = sum(file.stat().st_size for file in model.path.glob("*.safetensors"))
    adapters = 16 * model.lora.r * width_of(model) * max(1, model.blocks)  # if all layers have them
    return float(stored), 4.0 * adapters


def threads_of(model: ModelFolder, device: str, cores: int) -> int:
    """Choose the threads of a training: one for a small model, more for a larger one.

    Threads wait for each other in the small steps of a small model. Of a large model fewer fit into
    memory at once, and its releases are attacked one after the other, so cores would be idle.
    """
    if device != "cpu":
        return 1
    wanted = (count for size, count in _THREADS if model.parameters < size)
    return min(cores, next(wanted, _MOST_THREADS))
