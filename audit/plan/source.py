"""Where the secrets of a run come from: planted by the run itself, or before by `audit plant`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.core.chat import PLAIN, Manner
from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.secret import OWN, Planted, Planting
from audit.core.terms import Unit
from audit.plan.conversations import rendered
from audit.planting import coverage, training_rows
from audit.planting import manifest as manifests
from audit.planting.coverage import Coverage
from audit.planting.manifest import Manifest
from audit.planting.planting import plant
from audit.planting.training_rows import TokenRow

_UNSEEN = "What was trained on was not seen (as_is:training=FILE tells)"


class Source(ABC):
    """Source of the planted secrets, and of what is known of the training.

    What is not abstract is as where the run itself plants and trains.
    """

    @property
    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Its entries in the plan as results.json shows it."""

    @property
    @abstractmethod
    def kinds(self) -> frozenset[str]:
        """The kinds of the planted secrets."""

    @property
    def unit(self) -> str:
        """Unit that one coin decides."""
        return Unit.USER

    @property
    @abstractmethod
    def invented(self) -> int:
        """Number of users with coins whom planting invented; the others are of the corpus."""

    @property
    @abstractmethod
    def turn(self) -> str | None:
        """Whose turn a secret is in a corpus of conversations; None where it is in none."""

    @property
    def manner(self) -> Manner:
        """The beginning of a conversation around a secret."""
        return PLAIN

    @property
    def model(self) -> dict[str, str]:
        """Name and hash of a model that was trained elsewhere; empty where there is none."""
        return {}

    @property
    def base_known(self) -> bool:
        """Return whether the plan's model is a public one that the audited models started from."""
        return True

    @property
    def served(self) -> Served | None:
        """Number of audits of an endpoint, and its rate; None where none is audited."""
        return None

    @property
    def record(self) -> Manifest | None:
        """The record of what was planted elsewhere; None where this run plants."""
        return None

    @property
    def stated(self) -> str:
        """The stated training file, by name and digest; "" where none was stated."""
        return ""

    @abstractmethod
    def plant(self, corpus: Corpus, seed: int, count_tokens: Callable[[str], int]) -> Planted:
        """Return the corpus to train on, the secrets and their coins."""

    def shadows(self, wanted: int) -> int:
        """Return how many of the wanted shadow models can be trained."""
        return wanted

    def before_coins(self, corpus: Corpus) -> Corpus:
        """Return the corpus as it was before any coin: nothing planted, nobody set aside."""
        return corpus

    def size(self, corpus: Corpus) -> dict[str, Any]:
        """Return hash, records and users of the corpus, also where it is not here."""
        users = len(corpus.users())
        return {"sha256": corpus.sha256, "records": len(corpus.records), "users": users}

    def coverage(
        self, planted: Planted, tokenizer: TextTokenizer, context: int
    ) -> tuple[Coverage, ...]:
        """Return what became of the planted copies on their way into the training, if known."""
        return ()

    def lost(self, covered: Iterable[Coverage], kinds: Iterable[str]) -> dict[str, str]:
        """Return by kind, as a sentence, what is not known to have reached the training."""
        return {}

    @abstractmethod
    def limitations(self, covered: Iterable[Coverage], corpus: Corpus) -> list[str]:
        """Return what a reader must know about a training that was not seen."""


@dataclass(frozen=True)
class Served:
    """releases: how many audit one endpoint. rate: requests a second at most; None: no limit."""

    releases: int
    rate: float | None


@dataclass(frozen=True)
class PlantedHere(Source):
    """Secrets are planted by this run, and its models are trained here, on everything."""

    planting: Planting

    @property
    def document(self) -> dict[str, Any]:
        return {"planting": self.planting.document}

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self.planting.kinds)

    @property
    def invented(self) -> int:
        return self.planting.invented

    @property
    def turn(self) -> str | None:
        return self.planting.turn

    def plant(self, corpus: Corpus, seed: int, count_tokens: Callable[[str], int]) -> Planted:
        return plant(corpus, self.planting, seed, count_tokens)

    def limitations(self, covered: Iterable[Coverage], corpus: Corpus) -> list[str]:
        return [corpus.user_is] if corpus.user_is and not corpus.embedded else []


@dataclass(frozen=True)
class External:
    """A model that was trained elsewhere.

    base_known: whether the model it started from was named.
    training: the file that shows what it was trained on; None where nobody gave one.
    absent_base: the base that its adapter names, if its weights are not here or are quantised.
    """

    name: str
    sha256: str
    base_known: bool
    training: Path | None = None
    training_sha256: str | None = None
    served: Served | None = None
    absent_base: str = ""


@dataclass(frozen=True)
class PlantedElsewhere(Source):
    """`audit plant` planted the secrets, and the audited model was trained elsewhere."""

    manifest: Manifest
    external: External

    @property
    def document(self) -> dict[str, Any]:
        return {
            "planting": None,
            "manifest": self.manifest.digest,
            "finished": self.model,
            "trained_on": self.external.training_sha256,
        }

    @property
    def kinds(self) -> frozenset[str]:
        own = () if self.manifest.own is None else (OWN,)
        return frozenset((*(secret.kind for secret in self.manifest.secrets), *own))

    @property
    def unit(self) -> str:
        return self.manifest.unit

    @property
    def invented(self) -> int:
        return len(self.manifest.coins.present)

    @property
    def turn(self) -> str | None:
        return self.manifest.turn

    @property
    def manner(self) -> Manner:
        return self.manifest.manner

    @property
    def model(self) -> dict[str, str]:
        return {"name": self.external.name, "sha256": self.external.sha256}

    @property
    def base_known(self) -> bool:
        return self.external.base_known

    @property
    def served(self) -> Served | None:
        return self.external.served

    @property
    def record(self) -> Manifest:
        return self.manifest

    @property
    def stated(self) -> str:
        file, digest = self.external.training, self.external.training_sha256
        return "" if file is None else f"{file.name} (SHA-256 {(digest or '')[:12]})"

    def plant(self, corpus: Corpus, seed: int, count_tokens: Callable[[str], int]) -> Planted:
        return self.manifest.planted(corpus)

    def shadows(self, wanted: int) -> int:
        return 0

    def before_coins(self, corpus: Corpus) -> Corpus:
        return self.manifest.before_coins(corpus)

    def size(self, corpus: Corpus) -> dict[str, Any]:
        if corpus.records:
            return super().size(corpus)
        written = self.manifest
        return {"sha256": written.sha256, "records": written.records, "users": written.users}

    def coverage(
        self, planted: Planted, tokenizer: TextTokenizer, context: int
    ) -> tuple[Coverage, ...]:
        """Read the training file where one was given, else the corpus, which may lose more.

        Looks for secrets without the conversation around them: other trainers may write that in
        another way.
        """
        file = self.external.training
        if file is not None:
            rows = training_rows.of_file(file, tokenizer, context, rendered(tokenizer, context))
            there = self._counted(rows, planted, tokenizer)
            _refuse_unplanted(file, there)
            return tuple(replace(one, where="were trained on, as the file states") for one in there)
        texts = [record.text for record in planted.trained_on]
        if not texts:
            return ()
        rows = training_rows.of_texts(texts, tokenizer, context)
        there = self._counted(rows, planted, tokenizer)
        return tuple(replace(one, where="stand in the corpus") for one in there)

    def _counted(
        self, rows: Iterable[TokenRow], planted: Planted, tokenizer: TextTokenizer
    ) -> tuple[Coverage, ...]:
        written = self.manifest
        return coverage.by_kind(rows, written.secrets, planted.coins, tokenizer, written.beacons)

    def lost(self, covered: Iterable[Coverage], kinds: Iterable[str]) -> dict[str, str]:
        if self.external.training is not None:
            return {one.kind: _short(one) for one in covered if one.kind in kinds and not one.whole}
        seen = {one.kind: f"{one.sentence}. " for one in covered}
        return {kind: f"{seen.get(kind, '')}{_UNSEEN}" for kind in kinds}

    def limitations(self, covered: Iterable[Coverage], corpus: Corpus) -> list[str]:
        lines = [one.sentence for one in covered]
        if self.manifest.user_is:
            lines.append(self.manifest.user_is)
        if self.external.training is None:
            lines.append(
                "whether the canaries reached the training is not known, so silence shows nothing: "
                "say what was trained on with as_is:training=FILE"
            )
        if not self.base_known:
            lines.append(
                "no base was named: twins are the only null, and nothing is a positive control"
            )
        if self.external.absent_base:
            lines.append(
                f"the adapter names the base {self.external.absent_base!r}, which is not here or "
                "is quantised; it was assumed to be the one that was given"
            )
        if corpus.records and manifests.texts_digest(corpus) != self.manifest.texts:
            lines.append(
                "the corpus is not, text for text, the one that the canaries were planted into"
            )
        return lines


def _short(one: Coverage) -> str:
    return f"Removed before training: {one.sentence}" if one.removed else one.sentence


def _refuse_unplanted(file: Path, there: Sequence[Coverage]) -> None:
    """Raise UsageError where nothing of a manifest stands in the stated training file."""
    if there and all(one.absent for one in there):
        raise UsageError(
            f"{file}: was not planted with this manifest: neither its sentences nor its values nor "
            "its beacons are in the text, as this model's tokenizer reads it; give the file that "
            "was trained on, or the manifest that belongs to it"
        )
