"""Read AirDialogue (Wei et al., EMNLP 2018): JSON lines, each a `dialogue` and its `intent`.

A dialogue is one record: its turns (`customer: …`, `agent: …`), one per line. The user is the
customer's name in the intent, so all dialogues of one name belong to one user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.corpora import jsonl
from audit.corpora.part import Part


def recognises(part: Part) -> bool:
    """Return whether the part is of JSON lines and begins with a dialogue."""
    return _is_dialogue(jsonl.first(part))


def _is_dialogue(row: object) -> bool:
    if not isinstance(row, Mapping) or not isinstance(row.get("intent"), Mapping):
        return False
    turns = row.get("dialogue")
    return isinstance(turns, list) and all(isinstance(turn, str) for turn in turns)


def records(part: Part) -> Iterator[Record]:
    """Read every dialogue of a part; one without a turn is left out.

    Raises UsageError with file and line.
    """
    for number, row in jsonl.numbered(part):
        if not _is_dialogue(row):
            raise UsageError(
                f"{part.where(number)}: no 'dialogue' (a list of turns) with an 'intent', "
                "unlike the rows before; remove it"
            )
        text = "\n".join(row["dialogue"])
        if text.strip():
            name = row["intent"].get("name")
            yield from jsonl.record({"text": text, "user": name, "name": name}, part, number)


def in_one_split(dialogues: Sequence[Record]) -> list[Record]:
    """Drop the splits unless each customer is in one split.

    The published splits share most of their customers, so they hold nobody out. Dialogues without
    a split are split by customer later.
    """
    pairs = {(record.user, record.split) for record in dialogues}
    if len(pairs) == len({user for user, _ in pairs}):
        return list(dialogues)
    return [replace(record, split="") for record in dialogues]
