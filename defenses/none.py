"""No defense: the public model, fine-tuned on the private text as it is. The positive control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.corpus import Corpus
from audit.defense import Defense, Trained, Training
from audit.guarantee import no_guarantee
from audit.language_model import LanguageModel
from audit.models.fine_tuning import Recipe
from audit.models.loading import ModelFolder
from audit.release import ModelRelease, Release
from audit.streams import derived_seed


@dataclass(frozen=True)
class Undefended(Defense):
    """Fine-tunes on all private text and promises nothing."""

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: Recipe, seed: int
    ) -> Sequence[Training]:
        texts = tuple(record.text for record in corpus.of("private"))
        return (Training("none", texts, recipe, derived_seed(seed, "none", "training")),)

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        promise = no_guarantee("fine-tuning without protection promises nothing")
        return ModelRelease(trained[0].model, promise)
