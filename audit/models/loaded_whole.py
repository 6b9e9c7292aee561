"""Check that every tensor of the files is used and that every parameter is filled by one of them.

A library that passes over what does not fit leaves a model that answers as its base does, and that
looks like a model which gives nothing away. So whatever is missing, left over, of another shape,
empty or ambiguous is a refusal that names the tensor.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from audit.models.safetensors_header import header


def check_files(files: Iterable[Path]) -> None:
    """Check that no tensor is empty, and that files which hold the same tensor agree on it.

    Raises ValueError that names the tensor.
    """
    holders: dict[str, Path] = {}
    for file in files:
        for name, stored in header(file).items():
            if 0 in stored.shape:
                raise ValueError(f"{file.name}: the tensor {name!r} is empty")
            other = holders.setdefault(name, file)
            if other is not file and not _equal(_one(file, name), _one(other, name)):
                raise ValueError(
                    f"{other.name} and {file.name} hold different tensors {name!r}; keep the "
                    "file that is to be audited"
                )


def check_model(model: Any, report: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Check a model against the loading report of transformers and against its files.

    Raises ValueError that names a tensor which is missing, left over, of another shape or not
    finite, or which the model ties to another one although the files hold both with different
    values.
    """
    for kind, what in (
        ("missing_keys", "the weights lack"),
        ("unexpected_keys", "the model has no place for"),
        ("mismatched_keys", "the model has another shape than"),
    ):
        names = sorted(str(name[0] if isinstance(name, tuple) else name) for name in report[kind])
        if names:
            raise ValueError(f"{what} {names[0]!r} ({len(names)} in all)")
    if report.get("error_msgs"):
        raise ValueError(str(report["error_msgs"][0]).splitlines()[0])
    for name, weight in model.named_parameters():
        if not bool(weight.isfinite().all()):
            raise ValueError(f"{name!r} holds values that are not finite")
    _check_tied(model, files)


def _check_tied(model: Any, files: Iterable[Path]) -> None:
    """Check that tensors which the model ties are equal wherever the files hold several of them."""
    state: dict[str, Tensor] = model.state_dict()
    owners: dict[int, list[str]] = {}
    for name, tensor in state.items():
        owners.setdefault(tensor.data_ptr(), []).append(name)
    tied = {name for names in owners.values() if len(names) > 1 for name in names}
    for file in files if tied else ():
        for name in tied & header(file).keys():
            if not _equal(_one(file, name), state[name]):
                raise ValueError(
                    f"{name!r} is untied in {file.name}, but config.json ties it; set "
                    "tie_word_embeddings to false"
                )


def check_adapter(adapted: Any, weights: Mapping[str, Tensor]) -> None:
    """Check that a model with adapters holds each tensor of the adapter's file, and no other.

    weights: the file, by PEFT's names. Raises ValueError that names a tensor.
    """
    from peft import get_peft_model_state_dict  # seconds, which a dry run does not have

    own: dict[str, Tensor] = get_peft_model_state_dict(adapted, save_embedding_layers=False)
    held = {**adapted.state_dict(), **own}
    for name, tensor in weights.items():
        if name not in held:
            raise ValueError(f"the base has no place for the adapter's {name!r}")
        if not _equal(tensor, held[name]):
            raise ValueError(f"the adapter's {name!r} was not loaded as it is stored")
    missing = sorted(set(own) - set(weights))
    if missing:
        raise ValueError(f"the adapter lacks {missing[0]!r}, which its configuration promises")


def weights_digest(files: Iterable[Path]) -> str:
    """Compute SHA-256 of all tensors by name, dtype, shape and bytes, however files share them."""
    holders = {name: file for file in files for name in header(file)}
    digest = hashlib.sha256()
    for name in sorted(holders):
        tensor = _one(holders[name], name).contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _one(file: Path, name: str) -> Tensor:
    with safe_open(file, framework="pt") as tensors:
        tensor: Tensor = tensors.get_tensor(name)
        return tensor


def _equal(stored: Tensor, loaded: Tensor) -> bool:
    """Compare a stored tensor with the one that a model computes with, in the latter's dtype."""
    return stored.shape == loaded.shape and torch.equal(
        stored.to(loaded.dtype), loaded.detach().cpu()
    )
