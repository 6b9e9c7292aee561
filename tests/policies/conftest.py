"""Small spaCy pipelines made here: rules for entities, a table for grammar; nothing trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PEOPLE = {"label": "PERSON", "pattern": "Orla Penrose"}
FIRMS = {"label": "ORG", "pattern": "Quill Works"}
GRAMMAR = {  # word: (dependency, part of speech)
    "engineer": ("nsubj", "NOUN"),
    "letter": ("dobj", "NOUN"),
    "to": ("dative", "ADP"),
    "town": ("pobj", "NOUN"),
    "she": ("expl", "PRON"),
    "Kelham": ("compound", "PROPN"),
    "sent": ("ROOT", "VERB"),
}


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """pipeline(PEOPLE, …, grammar=True): the folder of a pipeline, always called `made`."""
    import spacy
    from spacy.language import Language
    from spacy.tokens import Doc

    @Language.component("made_grammar", assigns=["token.dep", "token.pos"])
    def grammar_(doc: Doc) -> Doc:
        for token in doc:
            token.dep_, token.pos_ = GRAMMAR.get(token.text, ("punct", "X"))
        return doc

    def make(*patterns: dict[str, str], entities: bool = True, grammar: bool = True) -> str:
        language = spacy.blank("en")
        if entities:
            language.add_pipe("entity_ruler").add_patterns([PEOPLE, *patterns])  # type: ignore[attr-defined]
        if grammar:
            language.add_pipe("made_grammar")
        folder: Path = tmp_path_factory.mktemp("pipeline") / "made"
        language.to_disk(folder)
        return str(folder)

    return make
