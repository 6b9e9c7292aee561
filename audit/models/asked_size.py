"""Refuse models whose settings ask for far more numbers than their files hold.

A library makes all that the settings ask for, and only then finds that the weights do not fit.
"""

from __future__ import annotations

from typing import Any

import torch

_TIMES = 4  # those of a file: several parameters may be one, or be held twice
_ALWAYS = 1 << 28  # numbers: constants that no file holds, such as masks


def check_asked(config: Any, held: int) -> None:
    """Raise ValueError where the model of a configuration has far more numbers than `held`.

    It is made without memory, on the device that has none.
    """
    from transformers import AutoModelForCausalLM  # two seconds, which a dry run does not need

    auto: Any = AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config, trust_remote_code=False)
    asked = sum(one.numel() for one in {*model.parameters(), *model.buffers()})
    if asked > _TIMES * held + _ALWAYS:
        raise ValueError(f"its settings ask for {asked:,} numbers, and its weights are {held:,}")
