"""Finds how a corpus' own conversations begin, so that planted ones do not stand out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from audit.core.chat import PLAIN, SYSTEM, USER, Manner
from audit.core.corpus import Record

SHARED = 5  # users; what fewer write may be one person's own words
_FIRST = re.compile(r"[^.!?\n]{1,200}(?:[.!?]+|$)", re.MULTILINE)  # the first sentence of a turn


def manner_of(records: Sequence[Record]) -> Manner:
    """Take the system prompt of most conversations, and the first sentence of most users.

    Each only where enough users have it; else there is no system prompt, and a plain question.
    """
    own = [r for r in records if r.messages and r.split in ("", "private")]
    system = _most(((r.user, r.messages[0][1]) for r in own if r.messages[0][0] == SYSTEM), own)
    asked = _most((r.user, _opening(r)) for r in own)
    return Manner(system=system, asked=asked or PLAIN.asked)


def _opening(record: Record) -> str:
    """Return the first sentence of the user's first turn; "" where there is none."""
    turn = next((content for role, content in record.messages if role == USER), "")
    found = _FIRST.match(turn.strip())
    return found.group() if found else ""


def _most(said: Iterable[tuple[str, str]], of: Sequence[Record] = ()) -> str:
    """Find the text of most users; "" where it is not of enough, or not of half of `of`'s users."""
    users: dict[str, set[str]] = {}
    for user, text in said:
        users.setdefault(text, set()).add(user)
    users.pop("", None)
    text = max(users, key=lambda text: (len(users[text]), text), default="")
    enough = max(SHARED, len({record.user for record in of}) / 2)
    return text if text and len(users[text]) >= enough else ""
