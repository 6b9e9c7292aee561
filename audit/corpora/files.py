"""Read corpora on disk: a file of a known kind, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.corpora import arrow_process, forms, mail, packed, tables
from audit.corpora.folder import listed, partitions
from audit.corpora.part import JSON, Part, as_text, naming, split_of_file, stem
from audit.corpora.reading import USUAL, Reading

_TEXT = (".txt", ".en")
KINDS = (*JSON, *tables.DELIMITERS, *tables.ARROW, *mail.KINDS, *_TEXT)


def kind_of(path: Path) -> str:
    """Return the ending that shows the kind of a file; of mail, also where its name has none."""
    named = packed.kind(path)
    return named if named in KINDS else mail.recognised(path)


def records(
    path: Path, reading: Reading = USUAL, notes: dict[str, int] | None = None
) -> Iterator[Record]:
    """Read every record of a file or folder. Raises UsageError with file and line.

    notes: receives what was recognised or left out, each with a number of records, or 0.
    """
    taken: dict[str, int] = {} if notes is None else notes
    if path.is_dir():
        parts = list(_parts(path, reading, taken))
    elif kind := kind_of(path):
        _note_mail([kind], reading, taken)
        name = stem(path) if kind in _TEXT else "line"
        lines, file = _content(path, kind)
        parts = [Part(name, str(path), lines, file=file, reading=reading, notes=taken)]
    else:
        raise UsageError(
            f"{path}: unknown kind of file; a corpus is a folder or a file of one of the kinds "
            f"{', '.join(KINDS)}, also packed as {' or '.join(packed.PACKED)}"
        )
    yield from forms.records(parts)


def _parts(folder: Path, reading: Reading, notes: dict[str, int]) -> Iterator[Part]:
    """Read the files of a folder: train, valid and test files are splits.

    Without a train file, each plain text file is one user.
    """
    found = listed(folder, kind_of)
    if not found.files:
        raise UsageError(f"{folder}: no file of a known kind here ({', '.join(KINDS)})")
    notes |= dict.fromkeys(found.notes, 0)
    _note_mail(found.files.values(), reading, notes)
    places = [path.relative_to(folder) for path in found.files]
    splits = any(split_of_file(place) == "private" for place in places)
    dropped = [str(place) for place in places if splits and not split_of_file(place)]
    if dropped:
        notes[f"left out, of no known split: {', '.join(dropped[:3])}"] = 0
    titles: set[str] = set()
    make = partial(Part, titles=titles, reading=reading, notes=notes)
    for (path, kind), place in zip(found.files.items(), places, strict=True):
        split = split_of_file(place) if splits else ""
        if split or not splits:
            name = as_text(place.with_name(stem(place)) if kind in _TEXT else place)
            owner = name if kind in _TEXT and not splits else None
            lines, file = _content(path, kind, partitions(place), mail.owner_of(place))
            yield make(name, str(path), lines, file=file, split=split, owner=owner)
    held = sorted({naming(place) for place in places if split_of_file(place) == "heldout"})
    if splits and held:
        notes[f"held out, never trained on: {', '.join(held)}"] = 0


def _note_mail(kinds: Iterable[str], reading: Reading, notes: dict[str, int]) -> None:
    """Note who the user of a mail is, where nobody said so."""
    if reading.user is None and not set(mail.KINDS).isdisjoint(kinds):
        notes[mail.NOTE] = 0


def _content(
    path: Path,
    kind: str,
    columns: Mapping[str, str | None] = MappingProxyType({}),
    owner: str = "",
) -> tuple[list[str], str]:
    """Read a file as lines of text or of JSON, with the name that shows which.

    columns: of all rows of an Arrow file, where its folders name them. owner: of a mailbox, where
    folders name it.
    """
    place = str(path)
    if kind in tables.ARROW:
        content = packed.content(path)
        arrow_process.check(path, content)
        rows = tables.arrow(content, kind, place)
        return tables.lines({**columns, **row} for row in rows), tables.FILE
    if kind in mail.KINDS:
        name = owner or (mail.mailbox_of(path) if kind == ".eml" else stem(path))
        return tables.lines(mail.rows(packed.content(path), kind, name)), tables.FILE
    text = packed.text(path)
    if kind in tables.DELIMITERS:
        cells = tables.separated(text, tables.DELIMITERS[kind], place)
        return tables.lines(cells), tables.FILE
    array = tables.array(text, place) if kind == ".json" else None
    if array is not None:
        return tables.lines(array), tables.FILE
    # not splitlines(): form feeds and the like are part of JSON strings and lines of text
    name = path.with_suffix("").name if path.suffix in packed.PACKED else path.name
    return text.split("\n"), name.lower()
