"""Find text, user and split of a record among the columns that people use.

Data sets name the same thing in many ways. Those that are common are recognised, and what was
taken for the text is noted; anything else is answered with the columns that are there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from audit.core.corpus import SPLITS
from audit.core.errors import UsageError
from audit.corpora.part import SPLIT_OF
from audit.corpora.reading import Reading

Entry = Mapping[str, Any]
Found = tuple[dict[str, Any], str] | None
Shape = Callable[[Entry], Found]
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}
_TEXTS = ("content", "body", "message")
_OWNERS = ("sender", "from", "author", "requester", "customer", "user_id", "username", "email")
_SHOWN = 8  # columns in a message
_WHOLE = 2**53  # whole numbers from which on floats stand for several
EACH = "without a user, so each is of one of its own"


def standard(entry: Entry, reading: Reading, where: str) -> tuple[dict[str, Any], list[str]]:
    """Rename the columns of a record to text, messages, user, name and split.

    Returns the renamed record and notes on what was recognised. Raises UsageError where a named
    column is missing, or none is the text.
    """
    named = {name: getattr(reading, name) for name in ("user", "split")}
    usual, notes = _spelled(entry, [name for name in named if named[name] is None], where)
    kept = {name: _known(usual.get(name)) for name in ("user", "name", "split")}
    for name, column in named.items():
        if column is not None:
            kept[name] = _known(_named(entry, column, name, where))
    if isinstance(kept["user"], str) and not kept["user"].strip():
        kept["user"] = None
    if kept["user"] is None:
        notes.append(EACH if named["user"] or "user" in usual else _each(entry))
    if isinstance(kept["split"], str) and kept["split"] not in SPLITS:
        kept["split"] = SPLIT_OF.get(kept["split"].strip().lower(), kept["split"])
    content, more = _content(entry, reading, where)
    return {**content, **kept}, [*more, *notes]


def _known(value: Any) -> Any:
    """Read a cell. Where one is missing, tables write NaN, and other whole numbers as floats."""
    if not isinstance(value, float):
        return value
    if value != value:
        return None
    return int(value) if value.is_integer() and abs(value) < _WHOLE else value


def _spelled(entry: Entry, names: Sequence[str], where: str) -> tuple[Entry, list[str]]:
    """Rename columns that differ from these names by case and blanks only, with a note on each.

    Raises UsageError where two columns do.
    """
    found: dict[str, str] = {}
    for column in entry:
        name = column.strip().casefold()
        if name not in names or name in entry or not fits(name, entry[column]):
            continue
        if name in found:
            raise UsageError(
                f"{where}: the columns {found[name]!r} and {column!r} differ by case and blanks "
                "only; rename one of them"
            )
        found[name] = column
    renamed = {name: entry[column] for name, column in found.items()}
    notes = [f"the column {column!r} is read as {name}" for name, column in found.items()]
    return {**entry, **renamed}, notes


def fits(name: str, value: Any) -> bool:
    """Return whether a column holds what one of its name holds, where other data use it, too."""
    if name == "split":
        return isinstance(value, str) and value.strip().lower() in SPLIT_OF
    return isinstance(value, {"messages": list, "name": str}.get(name, object))


def _each(entry: Entry) -> str:
    """State that no column is the user, and which one may be."""
    at = {column.strip().casefold().replace(" ", "_"): column for column in reversed(list(entry))}
    column = next((at[name] for name in _OWNERS if name in at), None)
    return EACH + (f"; should it be {column!r}: --user {shlex.quote(column)}" if column else "")


def _named(entry: Entry, column: str, option: str, where: str) -> Any:
    """Read a column, or one within a column: OUTER.INNER."""
    value: Any = entry
    for name in [column] if column in entry else column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise UsageError(
                f"{where}: no column {column!r} (--{option}); {_columns(entry, option)}"
            )
        value = value[name]
    return value


def _content(entry: Entry, reading: Reading, where: str) -> tuple[dict[str, Any], list[str]]:
    if reading.text is not None:
        return {"text": _named(entry, reading.text, "text", where)}, []
    if reading.messages is not None:
        turns = _named(entry, reading.messages, "messages", where)
        return {"messages": _turns(turns)}, []
    exact: Iterator[tuple[Shape, Entry, list[str]]] = ((of, entry, []) for _, of in _SHAPES)
    spelled = ((shape, *_spelled(entry, names, where)) for names, shape in _SHAPES)
    for shape, columns, notes in chain(exact, spelled):
        found = shape(columns)
        if found is not None:
            return found[0], [*notes, *filter(None, [found[1]])]
    raise UsageError(f"{where}: the record has no 'text' or 'messages'; {_columns(entry)}")


def _columns(entry: Entry, option: str = "text") -> str:
    """Describe the columns that are there; for a text suggest the one with the longest."""
    if not entry:
        return "it has no columns"
    shown = ", ".join(map(repr, list(entry)[:_SHOWN])) + (", …" if len(entry) > _SHOWN else "")
    if option != "text":
        return f"its columns are {shown}; name another of them"
    texts = dict(_texts(entry))
    longest = shlex.quote(max(texts, key=texts.__getitem__, default="COLUMN"))
    return f"its columns are {shown}; name the one with the text, such as --text {longest}"


def _texts(entry: Entry, outer: str = "") -> Iterator[tuple[str, int]]:
    """Yield the names and lengths of columns of text, and of those within columns."""
    for name, value in entry.items():
        if isinstance(value, str):
            yield f"{outer}{name}", len(value)
        elif isinstance(value, Mapping):
            yield from _texts(value, f"{outer}{name}.")


def _plain(entry: Entry) -> Found:
    if "text" not in entry and entry.get("messages") is None:
        return None
    given = {name: entry[name] for name in ("text", "messages") if name in entry}
    return {name: _turns(cell) if name == "messages" else cell for name, cell in given.items()}, ""


def _conversations(entry: Entry) -> Found:
    """Read the turns of ShareGPT: `conversations`, of {"from": …, "value": …}."""
    turns = _turns(entry.get("conversations"))
    if not isinstance(turns, list):
        return None
    return {"messages": turns}, "conversations are read as messages"


def _turns(turns: Any) -> Any:
    """Rename ShareGPT's `from` and `value` to role and content, and its roles.

    A cell of a table may hold turns as JSON, or as one list of roles and one of contents.
    """
    if isinstance(turns, str) and turns.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            turns = json.loads(turns)
    lists = list(turns.values()) if isinstance(turns, Mapping) else []
    if all(isinstance(of, list) for of in lists) and len(set(map(len, lists))) == 1:
        turns = [dict(zip(turns, cells, strict=True)) for cells in zip(*lists, strict=True)]
    if not isinstance(turns, list):
        return turns
    return [
        {"role": _ROLES.get(turn["from"], turn["from"]), "content": turn.get("value")}
        if isinstance(turn, Mapping) and isinstance(turn.get("from"), str)
        else turn
        for turn in turns
    ]


def _instruction(entry: Entry) -> Found:
    """Read Alpaca's instruction, input and output as lines of one text."""
    return _joined(entry, ("instruction", "input", "output"), ("input",), "\n")


def _prompt(entry: Entry) -> Found:
    """Read a prompt and its completion as a trainer joins them; both may be turns."""
    prompt, completion = entry.get("prompt"), entry.get("completion")
    if isinstance(prompt, list) and isinstance(completion, list):
        return {"messages": [*prompt, *completion]}, "prompt and completion are read as messages"
    return _joined(entry, ("prompt", "completion"), (), "")


def _joined(entry: Entry, names: tuple[str, ...], optional: tuple[str, ...], by: str) -> Found:
    cells = {name: entry.get(name) for name in names}
    if not all(isinstance(cells[name], str) for name in names if name not in optional):
        return None
    texts = [str(cell) for cell in cells.values() if cell]
    return {"text": by.join(texts)}, f"{', '.join(names)} are read as one text"


def _only(name: str, entry: Entry) -> Found:
    text = entry.get(name)
    return ({"text": text}, f"{name} is read as the text") if isinstance(text, str) else None


_SHAPES: tuple[tuple[tuple[str, ...], Shape], ...] = (
    (("text",), _plain),
    (("messages",), _plain),
    (("conversations",), _conversations),
    (("instruction", "input", "output"), _instruction),
    (("prompt", "completion"), _prompt),
    *(((name,), partial(_only, name)) for name in _TEXTS),
)
