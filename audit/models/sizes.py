"""Sizes of a model, from its description alone, without loading it."""

from __future__ import annotations

import math

from audit.core.model import ModelFolder

HEAD = 32  # width of an attention head


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
