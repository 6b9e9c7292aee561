"""No training: the unchanged public model. The null control: it has never seen a planted secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from defenses.training import pseudo_sentences, public_text


@dataclass(frozen=True)
class Public(Defense):
    """Releases the public model unchanged, or tuned on its own text: ε = 0.

    pseudo: whether it is fine-tuned on pseudo-sentences, which it completes from public prefixes.
    """

    pseudo: bool = False

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return (
            [pseudo_sentences.tuning("public", corpus, model, recipe, seed)] if self.pseudo else []
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        return ModelRelease(trained[0].model if trained else public, public_text.NEVER_READ)
