"""Redaction: masks what the policy marks, and trains on the rest without protection.

This is the data anonymisation of arXiv 2108.12944 (section 5.4). It has no guarantee: secrets that
the policy misses are learnt like all other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.rules import VISIBLE
from audit.core.training import FineTuning, Trained, Training
from defenses.training.redacting import check_marks, redacting


@dataclass(frozen=True)
class Redaction(Defense):
    """Fine-tunes on the private text with every private span masked; no formal guarantee.

    mask: word in place of each private span, whatever its length; not blank.
    """

    mask: Annotated[str, VISIBLE] = "_"

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        check_marks("redaction", corpus)
        return [redacting("redaction", corpus, recipe, self.mask, seed)]

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        promise = no_guarantee(
            "no formal guarantee: secrets that the policy misses are trained on unchanged, and "
            "masked ones can still be guessed from the words around them"
        )
        return ModelRelease(trained[0].model, promise)
