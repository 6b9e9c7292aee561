"""The policy `entities`: named entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from spacy.language import Language

from audit.core.errors import UsageError, did_you_mean
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, disjoint
from audit.policies import _pipeline

# The 18 types of OntoNotes 5 in spaCy's English pipelines.
ONTONOTES = (
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY", "NORP"),
    *("ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
)


@final
@dataclass(frozen=True)
class Entities(Policy):
    """Named entities a spaCy pipeline finds: entities[:PERSON+ORG][,pipeline=DIR].

    types: the private types; empty: all of the pipeline, in English the 18 of OntoNotes (the
    non-contextual policy of arXiv 2108.12944, section 6).
    pipeline: a package or a folder.
    """

    argument: ClassVar[str] = "PERSON+ORG"
    argument_needed: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ("pipeline",)

    types: tuple[str, ...] = ()
    pipeline: str = _pipeline.DEFAULT

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Entities:
        types = tuple(dict.fromkeys(argument.split("+"))) if argument else ()
        policy = cls(types, options.get("pipeline", _pipeline.DEFAULT))
        known = _pipeline.entity_types(policy._loaded()) or list(ONTONOTES)
        for name in types:
            if name not in known:
                raise UsageError(
                    f"policy entities: unknown type {name!r}{did_you_mean(name, known)}"
                )
        return policy

    def _loaded(self) -> Language:
        return _pipeline.load(self.pipeline, "policy entities", [_pipeline.ENTITIES])

    def __call__(self, text: str) -> list[Span]:
        return self.many([text])[0]

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        docs = _pipeline.read(self._loaded(), texts, "policy entities")
        return [
            disjoint(
                (entity.start_char, entity.end_char)
                for entity in doc.ents
                if not self.types or entity.label_ in self.types
            )
            for doc in docs
        ]

    @property
    def label(self) -> str:
        types = ":" + "+".join(self.types) if self.types else ""
        return f"entities{types}{_pipeline.shown(self.pipeline)}"

    @property
    def digest(self) -> str:
        return digest_of("entities", *sorted(self.types), _pipeline.digest(self._loaded()))
