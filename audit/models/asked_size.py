"""Refuse models whose settings ask for far more numbers than their files hold.

A library makes all that the settings ask for, and only then finds that the weights do not fit.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from audit.core.time_limit import limited

_TIMES = 4  # those of a file: several parameters may be one, or be held twice
_ALWAYS = 1 << 28  # numbers: constants that no file holds, such as masks
PARTS = 1 << 18  # modules and parameters: those of 61 layers with 384 experts are 190,000
_OF_TENSOR, _FIRST = 16, 1 << 12  # parts that a tensor of a file may be for, and those of no tensor
_SECONDS = 120.0


def parts_of(tensors: int) -> int:
    """Return how many modules and parameters a model of so many tensors may have."""
    return min(PARTS, _FIRST + _OF_TENSOR * tensors)


def check_asked(config: Any, held: int, parts: int = PARTS) -> None:
    """Raise ValueError where the model of a configuration has far more numbers than `held`, or more
    modules and parameters than `parts`.

    It is made without memory, on the device that has none. Raises UsageError where that takes long.
    """
    from transformers import AutoModelForCausalLM  # two seconds, which a dry run does not need

    auto: Any = AutoModelForCausalLM
    with (
        torch.device("meta"),
        _at_most(parts),
        limited(_SECONDS, "it", "its settings ask for too much"),
    ):
        model = auto.from_config(config, trust_remote_code=False)
    asked = sum(one.numel() for one in {*model.parameters(), *model.buffers()})
    if asked > _TIMES * held + _ALWAYS:
        raise ValueError(f"its settings ask for {asked:,} numbers, and its weights are {held:,}")


@contextlib.contextmanager
def _at_most(parts: int) -> Iterator[None]:
    """Raise ValueError where models that are made in the block have more modules and parameters."""
    made = itertools.count(1)

    def count(*part: Any) -> None:
        if next(made) > parts:
            raise ValueError(f"its settings ask for over {parts:,} modules and parameters")

    hooks = [
        register_module_module_registration_hook(count),
        register_module_parameter_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
