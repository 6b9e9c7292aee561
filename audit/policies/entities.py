"""The policy `entities`: named entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, final

from spacy.tokens import Doc

from audit.core.errors import UsageError, did_you_mean
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span
from audit.policies import _pipeline

# The 18 types of OntoNotes 5 in spaCy's English pipelines.
ONTONOTES = (
    *("CARDINAL", "DATE", "EVENT", "FAC", "GPE", "LANGUAGE", "LAW", "LOC", "MONEY", "NORP"),
    *("ORDINAL", "ORG", "PERCENT", "PERSON", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
)


@final
@dataclass(frozen=True)
class Entities(_pipeline.Piped, Policy):
    """Named entities a spaCy pipeline finds: entities[:PERSON+ORG][,pipeline=DIR].

    types: the private types; empty: all of the pipeline, in English the 18 of OntoNotes (the
    non-contextual policy of arXiv 2108.12944, section 6).
    pipeline: a package or a folder.
    """

    argument: ClassVar[str] = "PERSON+ORG"
    argument_needed: ClassVar[bool] = False
    needs = (_pipeline.ENTITIES,)

    types: tuple[str, ...] = ()
    pipeline: str = _pipeline.DEFAULT

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Entities:
        types = tuple(dict.fromkeys(argument.split("+"))) if argument else ()
        policy = cls(types, options.get("pipeline", _pipeline.DEFAULT))
        known = _pipeline.entity_types(policy.loaded()) or list(ONTONOTES)
        for name in types:
            if name not in known:
                raise UsageError(
                    f"policy entities: unknown type {name!r}{did_you_mean(name, known)}"
                )
        return policy

    def private(self, doc: Doc) -> Iterator[Span]:
        for entity in doc.ents:
            if not self.types or entity.label_ in self.types:
                yield entity.start_char, entity.end_char

    @property
    def label(self) -> str:
        types = ":" + "+".join(self.types) if self.types else ""
        return f"entities{types}{_pipeline.shown(self.pipeline)}"

    @property
    def digest(self) -> str:
        return digest_of("entities", *sorted(self.types), _pipeline.digest(self.loaded()))
