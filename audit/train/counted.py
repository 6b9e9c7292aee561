"""Stores next to the weights of a training what its steps learnt from, and that they moved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from audit.core import stages
from audit.core.counts import Counts, least
from audit.core.errors import DamagedError
from audit.core.files import read_json
from audit.core.model import PreTrainedModel
from audit.models.adapters import own_weights


@dataclass(frozen=True)
class Counted:
    """The texts and weights of a finished training.

    before, after: SHA-256 of the weights that it started from and of those that it left. finite:
    whether all of these are finite. learning: as of `Counts`. texts: by the place of a text, the
    runs of its tokens that were learnt equally often.
    """

    before: str
    after: str
    finite: bool
    learning: tuple[float, float] | None
    texts: Mapping[int, Sequence[Sequence[int]]]

    @property
    def moved(self) -> bool:
        """Return whether the training left finite weights other than those it started from."""
        return self.finite and self.before != self.after

    def times(self, text: int, tokens: Sequence[int]) -> int:
        """Return how often the least learnt of these tokens of a text was learnt."""
        return least(self.texts.get(text, ()), tokens)


def weights_digest(model: PreTrainedModel) -> str:
    """Compute SHA-256 of what a training of this model changes."""
    return tensors_digest(own_weights(model))


def tensors_digest(tensors: Mapping[str, Tensor], beside: str = "") -> str:
    """Compute SHA-256 of tensors by name, and of a text beside them."""
    digest = hashlib.sha256(beside.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def counted_of(before: str, model: PreTrainedModel, counts: Counts) -> Counted:
    """Collect what a training learnt from. before: `weights_digest` of what it started from."""
    finite = all(bool(tensor.isfinite().all()) for tensor in own_weights(model).values())
    return Counted(before, weights_digest(model), finite, counts.learning, counts.of_texts())


def write(counted: Counted, path: Path) -> None:
    """Write the file of a training."""
    stages.write(path, json.dumps(asdict(counted)))


def read(path: Path) -> Counted | None:
    """Read the file of a training; None where there is none. Raises DamagedError."""
    if not path.exists():
        return None
    try:
        stored: dict[str, Any] = read_json(path)
        texts = {int(text): runs for text, runs in stored.pop("texts").items()}
        learning = stored.pop("learning")
        return Counted(**stored, learning=learning and tuple(learning), texts=texts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise DamagedError(
            f"{path}: is damaged; remove it and the weights of this name to train them again"
        ) from None
