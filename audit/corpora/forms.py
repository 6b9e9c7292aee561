"""The forms of a corpus on disk: for each, how it is recognised and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from audit.core.corpus import Record
from audit.corpora import airdialogue, bigpatent, customersim, europarl, jsonl, wikitext
from audit.corpora.columns import EACH
from audit.corpora.part import Part
from audit.corpora.reading import RecordForm

OF_FILE = "of the file's user"
Reader = Callable[[Part], Iterator[Record]]
Form = tuple[Callable[[Part], bool], Reader]  # (recognises, records)


def blocks(part: Part) -> Iterator[Record]:
    """Read plain text: a record is a block between blank lines, unless a line or the file is.

    Each is of a user of its own unless the part has one owner.
    """
    for number, text in _RECORDS[part.reading.records](part):
        user = part.owner or f"{part.name}-{number}"
        part.note(OF_FILE if part.owner else EACH)
        yield Record(user, text, split=part.split, where=part.where(number))


def _lines(part: Part) -> Iterator[tuple[int, str]]:
    return ((n, line) for n, line in enumerate(part.lines, start=1) if line.strip())


def _file(part: Part) -> Iterator[tuple[int, str]]:
    whole = "\n".join(part.lines).strip()
    return iter([(1, whole)] if whole else [])


_RECORDS: Mapping[RecordForm | None, Callable[[Part], Iterator[tuple[int, str]]]] = {
    None: Part.blocks,
    RecordForm.PARAGRAPHS: Part.blocks,
    RecordForm.LINES: _lines,
    RecordForm.FILE: _file,
}

FORMS: tuple[Form, ...] = (  # of files
    (airdialogue.recognises, airdialogue.records),
    (bigpatent.recognises, bigpatent.records),
    (jsonl.recognises, jsonl.records),
    (europarl.recognises, europarl.records),
    (wikitext.recognises, wikitext.records),
    (customersim.recognises, customersim.records),
)


def reader(part: Part, forms: Sequence[Form] = FORMS, default: Reader = blocks) -> Reader:
    """Return the reader of the first form that recognises the part, else the default one."""
    return next((records for recognises, records in forms if recognises(part)), default)
