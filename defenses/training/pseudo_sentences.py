"""Fine-tunes on pseudo-sentences, alone or before a private training (arXiv 2210.05281)."""

from __future__ import annotations

from dataclasses import replace

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.training import FineTuning, Training
from audit.models.seqpate.pseudo_data import PseudoData, PseudoTuning
from defenses.training import public_text


def check_writes(name: str, model: ModelFolder) -> None:
    """Raise UsageError for a model that cannot complete a prefix before it is trained."""
    if model.kind != "transformer":
        raise UsageError(
            f"{name}: the public model must complete public prefixes, but {model.name} is "
            "untrained; choose another --model"
        )


def tuning(
    name: str, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> Training:
    """Return a training of one pass over pseudo-sentences, shared under the same seed.

    Raises UsageError for an untrained model, or for public text that is missing or private.
    """
    check_writes(name, model)
    return Training(
        f"{name}, on pseudo-sentences",
        public_text.of(name, corpus),
        PseudoTuning(replace(recipe, epochs=1), PseudoData()),
        derived_seed(seed, "pseudo-data"),
    )
