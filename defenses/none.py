"""No defense: fine-tunes the public model on the unchanged private text. The positive control.

Its leaks are those of the end of training, its utility that of its best step on held-out text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training


@dataclass(frozen=True)
class Undefended(Defense):
    """Fine-tunes on all private text, without a guarantee."""

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        texts = tuple(record.text for record in corpus.of("private"))
        heldout = tuple(record.text for record in corpus.of("heldout"))
        return (
            Training(
                "none", texts, recipe, derived_seed(seed, "none", "training"), heldout=heldout
            ),
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        promise = no_guarantee("fine-tuning without protection has no guarantee")
        return ModelRelease(trained[0].model, promise, best=trained[0].best)
