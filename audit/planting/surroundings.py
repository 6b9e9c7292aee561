"""Draws what all values of a kind have in common: the words around them, and how they begin."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.randomness import stream
from audit.core.secret import Draw, Space
from audit.core.wording import Wording
from audit.planting.kinds import sentence_space, stem, values
from audit.planting.templates import Template


@dataclass(frozen=True)
class Surroundings:
    """The words around the values of a kind, and the space of these values.

    sentence: the words before them, if they were drawn. stem: how each begins, where that was.
    """

    words: Wording
    space: Space
    sentence: Draw | None
    stem: Draw | None


def surroundings(kind: str, seed: int, template: Template | None, pattern: str) -> Surroundings:
    """Draw the surroundings of a kind. template: a user's own words; None: English ones."""
    words = Template(sentence_space(kind)) if template is None else template
    before = words.before.draw(stream(seed, "planting", "wording", kind))
    whole = values(kind, pattern, "--pattern")
    space, beginning = stem(kind, whole, stream(seed, "planting", "stem", kind))
    sentence = Draw(words.before, before) if words.before.size > 1 else None
    return Surroundings(Wording(before, words.after), space, sentence, beginning)
