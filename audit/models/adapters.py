"""LoRA adapters on a frozen model (arXiv 2106.09685): what is trained where a plan has `--lora`.

All models of a run share the tensors of one frozen base, and each has small adapters of its own.
The base is never copied and nothing is merged into it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model
from torch import Tensor, nn

from audit.core.errors import DamagedError, UsageError, first_line
from audit.core.lora import ALL_LINEAR, AUTO, Lora
from audit.core.model import PreTrainedModel
from audit.core.randomness import derived_seed
from audit.models.held_weights import hold

ONLY = "default"  # PEFT's name of a model's only adapters


def freeze(base: nn.Module) -> None:
    """Freeze a base for good; matrices that were stored in bfloat16 are held in it again."""
    base.requires_grad_(False)
    hold(base)


def fresh(base: PreTrainedModel, lora: Lora | None, seed: int = 0) -> PreTrainedModel:
    """Make a model to train: the base with new adapters, or a copy of the base without `lora`.

    seed: of the adapters' first factors; the second are zero, so it answers as the base does.
    Raises UsageError where no layer can have adapters.
    """
    if lora is None:
        return copy.deepcopy(base)
    try:
        adapted: PreTrainedModel = with_adapters(shell(base), lora, seed)
    except UsageError as error:
        raise UsageError(f"--lora {lora}: {error}; give other targets, or leave it out") from None
    return adapted


def shell(base: Any) -> Any:
    """Copy the modules of a base, but none of its tensors."""
    tensors = [*base.parameters(), *base.buffers()]
    return copy.deepcopy(base, memo={id(tensor): tensor for tensor in tensors})


def with_adapters(model: Any, lora: Lora, seed: int) -> Any:
    """Insert adapters into a model, in place; return it in evaluation mode. Raises UsageError."""
    from peft import get_peft_model  # seconds, which a dry run does not have

    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT warns of fan_in_fan_out, and corrects it
        torch.manual_seed(derived_seed(seed, "lora"))
        try:
            return get_peft_model(model, config_of(model, lora)).eval()
        except (ValueError, AttributeError, KeyError) as error:
            why = first_line(error)
            raise UsageError(f"adapters do not fit this model ({why})") from None


def config_of(model: Any, lora: Lora) -> Any:
    """Choose the layers that have adapters. The head is never one of them by itself.

    Raises UsageError for a name that no layer has: PEFT leaves it out where another name fits.
    """
    from peft import LoraConfig
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN

    targets: Any = lora.targets.split("+")
    if lora.targets == ALL_LINEAR:
        targets = ALL_LINEAR
    if lora.targets == AUTO:
        known = getattr(model.config, "model_type", None) in KNOWN
        headed = hasattr(model, "get_output_embeddings")  # else PEFT would adapt the head as well
        targets = ALL_LINEAR if headed and not known else None
    for name in targets if isinstance(targets, list) else ():
        layers = (layer for layer, _ in model.named_modules() if layer)
        if not any(f".{layer}".endswith(f".{name}") for layer in layers):
            raise UsageError(f"no layer is called {name!r}")
    return LoraConfig(r=lora.r, lora_alpha=lora.alpha, target_modules=targets)


def is_adapted(model: Any) -> bool:
    """Return whether a model has adapters of its own."""
    return hasattr(model, "peft_config")


def own_weights(model: Any) -> dict[str, Tensor]:
    """List what a training of this model changes: its adapters, or all of its weights."""
    if not is_adapted(model):
        state: dict[str, Tensor] = model.state_dict()
        return state
    from peft import get_peft_model_state_dict

    with warnings.catch_warnings(action="ignore"):  # it looks for the base's configuration
        adapters: dict[str, Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return adapters


def put(model: Any, weights: Mapping[str, Tensor], name: str = ONLY) -> None:
    """Load these weights into a model with adapters. Raises ValueError where they do not fit."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    own = get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
    if {key: value.shape for key, value in own.items()} != {
        key: value.shape for key, value in weights.items()
    }:
        raise ValueError("these are no adapters of this model")
    set_peft_model_state_dict(model, dict(weights), adapter_name=name)


def read_weights(model: PreTrainedModel, path: Path, device: str) -> None:
    """Load into a model the weights of a file of the run folder. Raises DamagedError."""
    inner: Any = model
    try:
        if is_adapted(inner):
            put(inner, load_file(path, device=device))
        else:
            load_model(inner, str(path), device=device)
    except (SafetensorError, RuntimeError, ValueError, OSError) as error:
        why = first_line(error)
        raise DamagedError(f"{path}: is damaged ({why}); remove it to train it again") from None
