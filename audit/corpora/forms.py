"""The forms of a corpus on disk: for each, how it is recognised and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from audit.core.corpus import Record
from audit.core.errors import UsageError
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

FORMS: tuple[Form, ...] = (
    (airdialogue.recognises, airdialogue.records),
    (bigpatent.recognises, bigpatent.records),
    (jsonl.recognises, jsonl.records),
    (europarl.recognises, europarl.records),
    (wikitext.recognises, wikitext.records),
    (customersim.recognises, customersim.records),
)


def records(parts: Sequence[Part]) -> Iterator[Record]:
    """Read every record of a corpus, each part by the first form that recognises it.

    Raises UsageError with file and line.
    """
    readers = [next((read for knows, read in FORMS if knows(part)), blocks) for part in parts]
    _check_plain([part for part, read in zip(parts, readers, strict=True) if read is blocks])
    dialogues: list[Record] = []
    for part, read in zip(parts, readers, strict=True):
        if read is airdialogue.records:
            dialogues += read(part)
        else:
            yield from read(part)
    yield from airdialogue.in_one_split(dialogues)


def _check_plain(parts: Sequence[Part]) -> None:
    """Refuse plain text of which it is not plain what a record is. Raises UsageError."""
    if not parts or parts[0].reading.records is not None:
        return
    blocks = [[text for _, text in part.blocks()] for part in parts]
    lines = [own[0].count("\n") + 1 for own in blocks if own]
    if all(len(own) < 2 for own in blocks) and max(lines, default=0) > 1:
        commands = " or ".join(f"--records {form}" for form in RecordForm)
        raise UsageError(
            f"{parts[0].place}: {max(lines)} lines without a blank line between them; say what "
            f"one record is: {commands}"
        )
