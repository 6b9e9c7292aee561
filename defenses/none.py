"""No defense: fine-tunes the public model on the unchanged private text. The positive control.

Its leaks are those of the end of training, its utility that of its best step on held-out text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.rules import UNSAID, at_least, one_of
from audit.core.training import FineTuning, Trained, Training
from defenses.training import near_duplicates


@dataclass(frozen=True)
class Undefended(Defense):
    """Fine-tunes on all private text, without a guarantee.

    dedup: "near" leaves out records that share four in five of their five-character runs with an
        earlier one, such as further copies; default none.
    epochs: passes over the text instead of the plan's; default none; at least 1.
    """

    dedup: Annotated[str | None, one_of("near")] = field(default=None, metadata=UNSAID)
    epochs: Annotated[int | None, at_least(1)] = field(default=None, metadata=UNSAID)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        texts = tuple(record.text for record in corpus.of("private"))
        if self.dedup:
            texts = tuple(texts[place] for place in near_duplicates.different(texts))
        heldout = tuple(record.text for record in corpus.of("heldout"))
        method = replace(recipe, epochs=self.epochs or recipe.epochs)
        own = derived_seed(seed, "none", "training")
        return (Training("none", texts, method, own, heldout=heldout),)

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        promise = no_guarantee("fine-tuning without protection has no guarantee")
        return ModelRelease(trained[0].model, promise, best=trained[0].best)
