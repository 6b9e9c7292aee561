"""The policy `contextual`: entities, and the words that describe who did what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from spacy.tokens import Doc, Token

from audit.core.policy import Policy, digest_of
from audit.core.spans import Span
from audit.policies import _pipeline

# The names in spaCy's English pipelines, and those of Universal Dependencies.
SUBJECTS = {"nsubj", "nsubjpass", "csubj", "csubjpass", "nsubj:pass", "csubj:pass"}
OBJECTS = {"dobj", "dative", "pobj", "obj", "iobj", "obl"}
PARTS_OF_SPEECH = {"PROPN", "PRON"}
TAGS = {"NNP", "NNPS", "PRP", "PRP$", "WP", "WP$"}  # for pipelines that set Penn tags only


@final
@dataclass(frozen=True)
class Contextual(_pipeline.Piped, Policy):
    """Entities, subjects, objects, proper nouns and pronouns: contextual[,pipeline=DIR].

    Of a subject, or an object of a verb or preposition, only the word itself, not its phrase (arXiv
    2108.12944, section 6). pipeline: a package or a folder.
    """

    needs = (_pipeline.ENTITIES, _pipeline.PARTS_OF_SPEECH, _pipeline.DEPENDENCIES)

    pipeline: str = _pipeline.DEFAULT

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Contextual:
        policy = cls(options.get("pipeline", _pipeline.DEFAULT))
        policy.loaded()
        return policy

    def private(self, doc: Doc) -> Iterator[Span]:
        for entity in doc.ents:
            yield entity.start_char, entity.end_char
        for token in doc:
            if _is_private(token):
                yield token.idx, token.idx + len(token)

    @property
    def label(self) -> str:
        return f"contextual{_pipeline.shown(self.pipeline)}"

    @property
    def digest(self) -> str:
        return digest_of("contextual", _pipeline.digest(self.loaded()))


def _is_private(token: Token) -> bool:
    if token.dep_ in SUBJECTS:
        return True
    if token.dep_ in OBJECTS:
        return token.pos_ != "ADP"  # "to" in "gave it to him" is a dative, but reveals nothing
    return token.pos_ in PARTS_OF_SPEECH or token.tag_ in TAGS
