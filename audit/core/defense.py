"""A defense is a frozen dataclass: fields are its parameters, two methods are its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from audit.core.corpus import Corpus
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import Release
from audit.core.training import FineTuning, Trained, Training


class Defense(ABC):
    """Turns a private corpus and a public model into a Release. Never sees an attack.

    external: whether it audits a model trained elsewhere, instead of training on the corpus.
    """

    external = False

    @property
    def controls(self) -> tuple[Defense, ...]:
        """Variants of it that run beside it as references, where there are references: they show
        what of its result is its own. By default none."""
        return ()

    @abstractmethod
    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """List the models that this defense needs, as independent trainings.

        corpus: its private records carry the spans that the plan's policy marks; its population is
            the public size, which does not depend on coins.
        model: description of the public model, which is not loaded yet.
        recipe: the plan's fine-tuning, without protection.
        Raises UsageError if corpus or model are unsuitable, such as too few users.
        """

    def promised(self, trainings: Sequence[Training]) -> Guarantee | None:
        """Return the guarantee before anything is trained; None where only the release knows it.

        A dry run reports from it how many coins refute the claim if it is false.
        """
        return None

    @abstractmethod
    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """Make the release from the trained models, in the order of `trainings`."""
