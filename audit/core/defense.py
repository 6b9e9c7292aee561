"""A defense is a frozen dataclass: fields are its parameters, two methods are its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from audit.core.corpus import Corpus
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import ModelRelease, Release
from audit.core.rules import check_fields
from audit.core.training import FineTuning, Trained, Training


class Defense(ABC):
    """Turns a private corpus and a public model into a Release. Never sees an attack.

    A field's rule, `k: Annotated[int, at_least(2)]`, is checked when a defense is made.
    external: whether it audits a model trained elsewhere, instead of training on the corpus.
    """

    external = False

    def __post_init__(self) -> None:
        check_fields(self.name, self)

    @property
    def name(self) -> str:
        """Name on the command line: that of its file."""
        return type(self).__module__.rpartition(".")[2]

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

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """Make the release from the trained models, in the order of `trainings`.

        By default it is the one model that was trained, with the guarantee that was promised.
        """
        (only,) = trained
        promise = self.promised([only.training])
        assert promise is not None, f"{self.name} states no guarantee"
        return ModelRelease(only.model, promise)
