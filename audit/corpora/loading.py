"""Load a corpus by name, file, folder or hub name, and assign a split to every record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from audit.core.corpus import Corpus, Record
from audit.core.digest import sha256_of
from audit.core.errors import UsageError
from audit.corpora import files, forms, hub, mail, users
from audit.corpora.columns import EACH
from audit.corpora.part import stem
from audit.corpora.reading import USUAL, Reading, UserForm

NAMES = {  # the embedded corpora
    "helpdesk": "simulated customer support",
    "customersim": "simulated orders of a shop, one dialog each, in the form of CustomerSim",
    "airdialogue": "simulated talk of travellers and a flight desk, after AirDialogue",
}

_SLOW = 2.0  # seconds, from which on it is said how long reading took
_FIFTH = 2**64 // 5  # of the first 64 bits of a hash


def load(source: str, embedded: Path, reading: Reading = USUAL) -> Corpus:
    """Load the corpus named `source` (see `read`), with a split for every record.

    If the data have no splits, about a fifth of the users is held out. Raises UsageError.
    """
    corpus = read(source, embedded, reading)
    records = split(corpus.name, corpus.records)
    corpus = replace(corpus, records=records, embedded=source == "helpdesk")
    return corpus if corpus.of("public") else replace(corpus, spare=_spare(embedded))


def load_planted(source: str, embedded: Path, reading: Reading = USUAL) -> Corpus:
    """Load a corpus that `audit plant` has written: records without a split are private.

    Raises UsageError.
    """
    corpus = read(source, embedded, reading)
    records = tuple(r if r.split else replace(r, split="private") for r in corpus.records)
    check_users_in_one_split(corpus.name, records)
    return replace(corpus, records=records, spare=_spare(embedded))


def read(source: str, embedded: Path, reading: Reading = USUAL) -> Corpus:
    """Read the corpus named `source`: one of NAMES, a file, a folder, or hf:NAME[/CONFIG].

    Records have the split that the data give, or none. embedded: folder of the embedded corpora.
    reading: how columns and records are read. Raises UsageError with file and line.
    """
    notes: dict[str, int] = {}
    began = time.monotonic()
    if source in NAMES:
        name, read = source, files.records(embedded / f"{source}.jsonl")
    elif source.startswith("hf:"):
        name, read = source, hub.records(source[3:], reading, notes)
    else:
        path = Path(source)
        if not path.exists():
            raise UsageError(
                f"corpus {source!r}: no such file or folder; give a file or folder of texts, "
                f"hf:NAME, or one of {', '.join(NAMES)}"
            )
        name, read = stem(path) or path.name, files.records(path, reading, notes)
    records = users.in_form(read, reading.user_form, notes)
    if not records:
        raise UsageError(f"{source}: the corpus is empty; it needs at least one record with text")
    seconds = time.monotonic() - began
    if seconds >= _SLOW:
        notes[f"read in {seconds:.0f} s"] = 0
    lines = (f"{note} ({count:,} records)" if count else note for note, count in notes.items())
    return Corpus(
        name, tuple(records), notes=tuple(lines), user_is=_user_is(reading, notes, len(records))
    )


def _user_is(reading: Reading, notes: Mapping[str, int], records: int) -> str:
    """Describe how users were told apart: by which id, and when two of them are one."""
    if notes.get(forms.OF_FILE) == records:
        return "a user is one file"
    if sum(n for note, n in notes.items() if note.startswith(EACH)) == records:
        return "a user is one record: nothing says whose it is"
    unnamed = "sender of mail" if mail.NOTE in notes else "id in the column user"
    column = f"id in the column {reading.user}" if reading.user else unnamed
    exact = reading.user_form is UserForm.EXACT
    how = "exactly" if exact else "without case, blanks and Unicode forms"
    return f"a user is one {column}, compared {how}"


@cache
def _spare(embedded: Path) -> tuple[str, ...]:
    read = files.records(embedded / "helpdesk.jsonl")
    return tuple(record.text for record in read if record.split == "public")


def split(name: str, records: Sequence[Record]) -> tuple[Record, ...]:
    """Assign a split to every record. If the data have none, about a fifth of the users is held
    out, each decided alone: who else is in the corpus moves nobody."""
    if not any(record.split for record in records):
        heldout = _heldout(records)
        records = [replace(r, split="heldout" if r.user in heldout else "private") for r in records]
    records = [r if r.split else replace(r, split="private") for r in records]
    check_users_in_one_split(name, records)
    return tuple(records)


def _heldout(records: Sequence[Record]) -> set[str]:
    """Choose the users whose hash is in the lowest fifth of all hashes, whatever the seed.

    The hash is of the user's id; of a user with one record of its text, since ids of records
    without users are numbers, which change when a record is added before them. In a corpus so small
    that this holds out nobody, or everybody, it is the first user by hash.
    """
    texts: dict[str, list[str]] = {}
    for record in records:
        texts.setdefault(record.user, []).append(record.text)
    hashes = {user: sha256_of(own[0] if len(own) == 1 else user) for user, own in texts.items()}
    heldout = {user for user, digest in hashes.items() if int(digest[:16], 16) < _FIFTH}
    if len(heldout) in (0, len(hashes)):
        heldout = {min(hashes, key=hashes.__getitem__)} if len(hashes) > 1 else set()
    return heldout


def check_users_in_one_split(name: str, records: Iterable[Record]) -> None:
    """Raise UsageError for a user in two splits, or no private record. No split is private."""
    split_of: dict[str, str] = {}
    for record in records:
        split = record.split or "private"
        if split_of.setdefault(record.user, split) != split:
            raise UsageError(
                f"corpus {name}: user {record.user!r} is in two splits "
                f"({split_of[record.user]} and {split}); give each user one split"
            )
    if "private" not in split_of.values():
        raise UsageError(f'corpus {name}: no private record; mark some with "split": "private"')
