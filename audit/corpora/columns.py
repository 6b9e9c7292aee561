"""Find text, user and split of a record among the columns that people use.

Data sets name the same thing in many ways. Those that are common are recognised, and what was
taken for the text is noted; anything else is answered with the columns that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.core.corpus import SPLITS
from audit.core.errors import UsageError
from audit.corpora.part import SPLIT_OF
from audit.corpora.reading import Reading

Entry = Mapping[str, Any]
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}
_TEXTS = ("content", "body")
_SHOWN = 8  # columns in a message


def standard(entry: Entry, reading: Reading, where: str) -> tuple[dict[str, Any], str]:
    """Rename the columns of a record to text, messages, user, name and split.

    Returns the renamed record and a note on what was taken for its text; empty for text and
    messages themselves. Raises UsageError where a named column is missing, or none is the text.
    """
    kept = {name: _known(entry.get(name)) for name in ("user", "name", "split")}
    for name in ("user", "split"):
        column = getattr(reading, name)
        if column is not None:
            kept[name] = _known(_named(entry, column, name, where))
    if isinstance(kept["user"], str) and not kept["user"].strip():
        kept["user"] = None
    if isinstance(kept["split"], str) and kept["split"] not in SPLITS:
        kept["split"] = SPLIT_OF.get(kept["split"].strip().lower(), kept["split"])
    content, note = _content(entry, reading, where)
    return {**content, **kept}, note


def _known(value: Any) -> Any:
    """Read a cell, where NaN is what tables write for nothing."""
    return None if isinstance(value, float) and value != value else value


def _named(entry: Entry, column: str, option: str, where: str) -> Any:
    if column not in entry:
        raise UsageError(f"{where}: no column {column!r} (--{option}); {_columns(entry)}")
    return entry[column]


def _content(entry: Entry, reading: Reading, where: str) -> tuple[dict[str, Any], str]:
    if reading.text is not None:
        return {"text": _named(entry, reading.text, "text", where)}, ""
    if reading.messages is not None:
        turns = _named(entry, reading.messages, "messages", where)
        return {"messages": _turns(turns)}, ""
    if "text" in entry or entry.get("messages") is not None:
        return {name: entry[name] for name in ("text", "messages") if name in entry}, ""
    for shape in (_conversations, _instruction, _prompt, _only):
        found = shape(entry)
        if found is not None:
            return found
    raise UsageError(f"{where}: the record has no 'text' or 'messages'; {_columns(entry)}")


def _columns(entry: Entry) -> str:
    """Describe the columns that are there and suggest the one with the longest text."""
    shown = ", ".join(map(repr, list(entry)[:_SHOWN])) + (", …" if len(entry) > _SHOWN else "")
    texts = {name: len(value) for name, value in entry.items() if isinstance(value, str)}
    longest = max(texts, key=texts.__getitem__, default="COLUMN")
    if not entry:
        return "it has no columns"
    return f"its columns are {shown}; name the one with the text, such as --text {longest}"


Found = tuple[dict[str, Any], str] | None


def _conversations(entry: Entry) -> Found:
    """Read the turns of ShareGPT: `conversations`, of {"from": …, "value": …}."""
    turns = entry.get("conversations")
    if not isinstance(turns, list):
        return None
    return {"messages": _turns(turns)}, "conversations are read as messages"


def _turns(turns: Any) -> Any:
    """Rename ShareGPT's `from` and `value` to role and content, and its roles."""
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


def _only(entry: Entry) -> Found:
    for name in _TEXTS:
        if isinstance(entry.get(name), str):
            return {"text": entry[name]}, f"{name} is read as the text"
    return None
