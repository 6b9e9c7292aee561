"""Redaction: what the policy marks is masked, and the rest trained on without protection.

The data anonymisation of arXiv 2108.12944 (section 5.4). It promises nothing: what the policy
misses is learnt like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from defenses._checks import check_mask
from defenses._redacting import check_marks, redacting


@dataclass(frozen=True)
class Redaction(Defense):
    """Fine-tunes on the private text with every private span masked; no formal guarantee.

    mask: what stands in the place of a private span, however long it is.
    """

    mask: str = "_"

    def __post_init__(self) -> None:
        check_mask("redaction", self.mask)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        check_marks("redaction", corpus)
        return [redacting("redaction", corpus, recipe, self.mask, seed)]

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        promise = no_guarantee(
            "no formal guarantee: what the policy misses is trained on as it is, and what it masks "
            "can still be guessed from the words around it"
        )
        return ModelRelease(trained[0].model, promise)
