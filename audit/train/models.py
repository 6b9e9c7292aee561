"""Loads the models that trainings start from and query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from audit.core.lora import Lora
from audit.core.model import ModelFolder, PreTrainedModel, TextTokenizer
from audit.core.training import Question, Teachers
from audit.models.adapters import fresh, read_weights
from audit.models.loading import load_tokenizer, load_weights


@dataclass(frozen=True)
class TrainedModels(Teachers):
    """Trained models one after the other; one is in memory at a time, beside the public one.

    paths: the files of their weights; None: the public model. lora: their adapters, if any.
    """

    public: PreTrainedModel
    paths: tuple[Path | None, ...]
    lora: Lora | None = None

    def __iter__(self) -> Iterator[PreTrainedModel]:
        model: Any = fresh(self.public, self.lora)
        for path in self.paths:
            if path is None:
                yield self.public
            else:
                read_weights(model, path, str(model.device))
                yield model

    def answers(self, question: Question) -> Iterator[Tensor]:
        return map(question, self)


@lru_cache(maxsize=1)
def public_model(folder: ModelFolder, device: str) -> tuple[TextTokenizer, PreTrainedModel]:
    """Load a public model and its tokenizer, once per process."""
    return load_tokenizer(folder), load_weights(folder, device)
