"""Lines of text, in the form that the first of them show."""

from __future__ import annotations

from collections.abc import Iterator

from audit.core.corpus import Record
from audit.corpora import customersim, europarl, wikitext
from audit.corpora.part import Part


def records(part: Part, articles: set[str]) -> Iterator[Record]:
    """Every record of the part: WikiText, CustomerSim, marked Europarl, or plain text by blocks.

    articles: the titles met in the parts before, added to here.
    """
    if wikitext.is_one(part):
        return wikitext.records(part, articles)
    if europarl.is_marked(part):
        return europarl.records(part)
    return customersim.records(part) if customersim.is_one(part) else _plain(part)


def _plain(part: Part) -> Iterator[Record]:
    """A blank line between records, each of a user of its own unless the part has one owner."""
    for number, text in part.blocks():
        user = part.owner or f"{part.name}-{number}"
        yield Record(user, text, split=part.split, where=part.where(number))
