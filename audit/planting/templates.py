"""Sentences of one's own around planted values, whose alternatives are drawn.

`'{My|Our} {old|new} PIN {is|was} {value}.'` makes eight sentences. Where one of enough is drawn, a
model that knows it was trained on it; a template without alternatives shows nothing of the kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from audit.core.errors import UsageError
from audit.core.secret import Space
from audit.core.wording import ALTERNATIVES, Wording, check, halves
from audit.planting.kinds import FEWEST_OTHERS

_MOST = 200_000  # sentences, each of which is checked


@dataclass(frozen=True)
class Template:
    """before: the sentences that may stand before a value, one if nothing is drawn. after: the text
    after it.
    """

    before: Space
    after: str = "."


def template_of(text: str, where: str) -> Template:
    """Read a template with its alternatives. Raises UsageError, also for words unfit to plant."""
    before, after = halves(text, where)
    if ALTERNATIVES.search(after):
        raise UsageError(
            f"{where} is {text!r}: alternatives stand before {{value}} only; write one after it"
        )
    parts = ALTERNATIVES.split(before)  # literal text and alternatives take turns
    symbols = [tuple(p.split("|")) if i % 2 else (p,) for i, p in enumerate(parts)]
    space = Space(tuple(place for place in symbols if place != ("",)))
    if 1 < space.size < FEWEST_OTHERS or space.size > _MOST:
        raise UsageError(
            f"{where} is {text!r}: its alternatives make {space.size:,} sentences; use "
            f"{FEWEST_OTHERS:,} to {_MOST:,}, of which one is drawn, or no alternatives"
        )
    sentences = {"".join(chosen) for chosen in product(*space.symbols)}
    if len(sentences) < space.size:
        raise UsageError(
            f"{where} is {text!r}: two choices make the same sentence; remove one of them"
        )
    for sentence in sentences:
        check(Wording(sentence, after), where)
    return Template(space, after)
