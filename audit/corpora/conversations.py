"""Read conversations: `messages`, a list of {"role": …, "content": …} in place of a `text`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from audit.core.corpus import Message, Record
from audit.core.errors import UsageError

ROLES = ("system", "user", "assistant")


def messages(entry: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """Read the turns of a record; () for one of plain text. Raises UsageError."""
    turns = entry.get("messages")
    if turns is None:
        return ()
    if entry.get("text") is not None:
        raise UsageError(f"{where}: has both 'text' and 'messages'; keep one of them")
    if not isinstance(turns, list) or not turns:
        raise UsageError(f"{where}: 'messages' must be a list of turns, and not an empty one")
    return tuple(_message(turn, where) for turn in turns)


def _message(turn: object, where: str) -> Message:
    role, content = (
        (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
    )
    if role not in ROLES:
        shown = repr(role)[:40]
        raise UsageError(f"{where}: a turn's 'role' is {shown}; it can be {', '.join(ROLES)}")
    if not isinstance(content, str) or not content.strip():
        raise UsageError(
            f"{where}: the 'content' of a turn of the {role} must be a string that is not empty"
        )
    return role, content


def entries(messages: Iterable[Message]) -> list[dict[str, str]]:
    """Write turns as a corpus and a chat template have them."""
    return [{"role": role, "content": content} for role, content in messages]


def plain(messages: Iterable[Message]) -> str:
    """Write turns as plain text, as long as no model's template is known."""
    return "\n".join(f"{role}: {content}" for role, content in messages)


def are_chat(records: Sequence[Record]) -> bool:
    """Return whether a corpus is of conversations; its public texts may be plain all the same.

    Raises UsageError for a corpus of both.
    """
    if not any(record.messages for record in records):
        return False
    for record in records:
        if not record.messages and record.split != "public":
            raise UsageError(
                f"{record.where or 'a record'}: has a 'text' where others have 'messages'; only "
                "public records may"
            )
    return True
