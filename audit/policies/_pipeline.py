"""Load spaCy pipelines once, check which attributes they set, and hash their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

import spacy
from spacy.about import __version__
from spacy.language import Language
from spacy.tokens import Doc

from audit.core.digest import sha256_of
from audit.core.errors import UsageError
from audit.core.policy import digest_of
from audit.core.spans import Span, disjoint

DEFAULT = "en_core_web_sm"
ENTITIES = ("doc.ents",)
PARTS_OF_SPEECH = ("token.pos", "token.tag")
DEPENDENCIES = ("token.dep",)

_CALLED = {ENTITIES: "entities", PARTS_OF_SPEECH: "parts of speech", DEPENDENCIES: "dependencies"}


class Piped(ABC):
    """The part of a policy that marks what a pipeline finds.

    pipeline: a package or a folder. needs: as `load` takes them.
    """

    options: ClassVar[tuple[str, ...]] = ("pipeline",)
    needs: ClassVar[Sequence[tuple[str, ...]]]
    pipeline: str

    @abstractmethod
    def private(self, doc: Doc) -> Iterable[Span]:
        """Return the private spans of a text, in any order."""

    def loaded(self) -> Language:
        """Load the pipeline. Raises UsageError as `load` does."""
        return load(self.pipeline, self._who, self.needs)

    def __call__(self, text: str) -> list[Span]:
        return self.many([text])[0]

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        docs = read(self.loaded(), texts, self._who)
        return [disjoint(self.private(doc)) for doc in docs]

    @property
    def _who(self) -> str:
        return f"policy {type(self).__name__.lower()}"


def load(source: str, who: str, needs: Sequence[tuple[str, ...]]) -> Language:
    """Load a trained pipeline by the name of its package or its folder.

    who: begins the error message, such as "policy entities".
    needs: attributes the pipeline must set, one of each tuple.
    Raises UsageError for a pipeline that is missing, broken or does not set them.
    """
    advice = f"install one with: python -m spacy download {DEFAULT}, or give pipeline=DIR"
    try:
        pipeline = _loaded(source)
    except Exception as error:  # spaCy's components raise errors of many kinds
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise UsageError(
            f"{who}: pipeline {source!r} cannot be loaded ({reason}); {advice}"
        ) from None
    for need in needs:
        if not any(_assigning(pipeline, need)):
            raise UsageError(f"{who}: pipeline {source!r} finds no {_CALLED[need]}; {advice}")
    return pipeline


@cache
def _loaded(source: str) -> Language:
    if source == DEFAULT and not spacy.util.is_package(source):
        raise OSError("it is not installed")  # a folder of its name may be a stranger's
    return spacy.load(source)


def _assigning(pipeline: Language, need: tuple[str, ...]) -> Iterator[str]:
    """Return the components that set one of these attributes."""
    for name in pipeline.pipe_names:
        if set(need) & set(pipeline.get_pipe_meta(name).assigns):
            yield name


def entity_types(pipeline: Language) -> list[str]:
    """Return the entity types that the pipeline's components name; empty if they name none."""
    labels = pipeline.pipe_labels
    return sorted({t for name in _assigning(pipeline, ENTITIES) for t in labels.get(name, ())})


def read(pipeline: Language, texts: Sequence[str], who: str) -> Iterator[Doc]:
    """Parse the texts. Raises UsageError for a text that is too long for the pipeline."""
    for text in texts:
        if len(text) > pipeline.max_length:
            raise UsageError(
                f"{who}: a text has {len(text)} characters, and its pipeline reads at most "
                f"{pipeline.max_length}; split the record"
            )
    yield from pipeline.pipe(texts)


def shown(source: str) -> str:
    """`,pipeline=NAME` for a label; empty for the default."""
    return "" if source == DEFAULT else f",pipeline={Path(source).resolve().name}"


def digest(pipeline: Language) -> str:
    """Compute SHA-256 of all files of the pipeline, and of spaCy's version."""
    parts = [__version__]
    for path in sorted(pipeline.path.rglob("*")):
        if path.is_file():
            content = sha256_of(path.read_bytes())
            parts += [path.relative_to(pipeline.path).as_posix(), content]
    return digest_of(*parts)
