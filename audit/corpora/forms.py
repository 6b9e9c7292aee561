"""The forms of a corpus on disk: for each, how it is recognised and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from audit.core.corpus import Record
from audit.corpora import airdialogue, bigpatent, customersim, europarl, jsonl, wikitext
from audit.corpora.part import Part

Reader = Callable[[Part], Iterator[Record]]
Form = tuple[Callable[[Part], bool], Reader]  # (recognises, records)


def blocks(part: Part) -> Iterator[Record]:
    """Reads plain text: a block is a record, of its own user unless the part has one owner."""
    for number, text in part.blocks():
        user = part.owner or f"{part.name}-{number}"
        yield Record(user, text, split=part.split, where=part.where(number))


FORMS: tuple[Form, ...] = (  # of files
    (airdialogue.recognises, airdialogue.records),
    (bigpatent.recognises, bigpatent.records),
    (jsonl.recognises, jsonl.records),
    (europarl.recognises, europarl.records),
    (wikitext.recognises, wikitext.records),
    (customersim.recognises, customersim.records),
)


def reader(part: Part, forms: Sequence[Form] = FORMS, default: Reader = blocks) -> Reader:
    """The reader of the first form that recognises the part, else the default one."""
    return next((records for recognises, records in forms if recognises(part)), default)
