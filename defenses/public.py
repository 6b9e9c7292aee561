"""No training: the unchanged public model. The null control: it has never seen a planted secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Trained, Training
from defenses import _pseudo

NEVER_READ = Guarantee(
    epsilon=0.0,
    unit=Unit.USER,
    relation=Relation.ADD_OR_REMOVE,
    release="model",
    basis="worst case",
    delta=0.0,
    theorem="the private text is never read",
    conditions=("the public model was not trained on the private text",),
)


@dataclass(frozen=True)
class Public(Defense):
    """Releases the public model unchanged, or tuned on its own text: ε = 0.

    pseudo: whether it is fine-tuned on pseudo-sentences, which it completes from public prefixes.
    """

    pseudo: bool = False

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return [_pseudo.tuning("public", corpus, model, recipe, seed)] if self.pseudo else []

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        return ModelRelease(trained[0].model if trained else public, NEVER_READ)
