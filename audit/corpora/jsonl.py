"""Read JSON lines: objects with `text`, and optionally `user`, `name` and `split`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from audit.core.corpus import SPLITS, Record
from audit.core.errors import UsageError
from audit.corpora import columns, conversations
from audit.corpora.part import JSON, Part
from audit.corpora.tables import unique

EMPTY = "left out, with an empty text"


def recognises(part: Part) -> bool:
    """Return whether the file's name ends as one of JSON lines."""
    return part.file.endswith(JSON)


def records(part: Part) -> Iterator[Record]:
    """Read every record of the part; one without `user` gets a user of its own.

    Raises UsageError with file and line.
    """
    for number, found in numbered(part):
        yield from record(found, part, number)


def numbered(part: Part) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the object of each line that is not blank: (number of the line, object)."""
    for number, line in enumerate(part.lines, start=1):
        if line.strip():
            yield number, entry(line, part.where(number))


def first(part: Part) -> object:
    """Read the first line that is not blank; None where it, or the file, is not JSON."""
    if not recognises(part):
        return None
    line = next((line for line in part.lines if line.strip()), "")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def entry(line: str, where: str) -> dict[str, Any]:
    """Parse a line as an object. Raises UsageError."""
    try:
        value = json.loads(line, object_pairs_hook=unique)
    except UsageError as error:
        raise UsageError(f"{where}: an object {error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: broken JSON ({error.msg} at column {error.colno})") from None
    except (ValueError, RecursionError):  # a number too long or a nesting too deep for Python
        raise UsageError(f"{where}: broken JSON (too many digits or brackets)") from None
    if not isinstance(value, dict):
        raise UsageError(
            f"{where}: expected an object with a 'text' or 'messages', found {type(value).__name__}"
        )
    return value


def record(entry: Mapping[str, Any], part: Part, number: int) -> Iterator[Record]:
    """Convert an object to a record; to none, with a note, where its text is empty.

    Raises UsageError.
    """
    where = part.where(number)
    entry, notes = columns.standard(entry, part.reading, where)
    messages = conversations.messages(entry, where)
    text = conversations.plain(messages) if messages else entry.get("text")
    empty = text is None or (isinstance(text, str) and not text.strip())
    for note in [EMPTY] if empty else notes:
        part.note(note)
    if empty:
        return
    if not isinstance(text, str):
        raise UsageError(f"{where}: its text is of type {type(text).__name__}; it must be a string")
    user, name, split = entry.get("user"), entry.get("name"), entry.get("split", "")
    user = f"{part.name}-{number}" if user is None else user
    split = "" if split is None else split
    if not isinstance(user, (str, int)) or isinstance(user, bool):
        raise UsageError(f"{where}: 'user' must be a string or a whole number")
    if name is not None and not isinstance(name, str):
        raise UsageError(f"{where}: 'name' must be a string")
    if split not in ("", *SPLITS):
        raise UsageError(f"{where}: 'split' is {split!r}; it can be {', '.join(SPLITS)}")
    try:
        f"{user}{name}{text}".encode()
    except UnicodeEncodeError:
        message = f"{where}: half of a surrogate pair; write the whole character"
        raise UsageError(message) from None
    yield Record(str(user), text, name, split or part.split, where, messages=messages)
