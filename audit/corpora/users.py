"""Compare the ids of users: one person under two spellings is two users, or one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from audit.core.corpus import Record
from audit.core.visible import composed
from audit.corpora.reading import UserForm


def folded(user: str) -> str:
    """Fold an id: Unicode's composed form, without case, invisible signs and blanks around it."""
    return " ".join(composed(user).split()).casefold()


def in_form(records: Iterable[Record], form: UserForm, notes: dict[str, int]) -> list[Record]:
    """Join users whose ids have the same form, under the spelling that comes first.

    With exact ids nobody is joined; a note counts the users that a folded form would join.
    """
    kept = list(records)
    first: dict[str, str] = {}
    spellings = dict.fromkeys(record.user for record in kept)
    for user in spellings:
        first.setdefault(folded(user), user)
    joined = len(spellings) - len(first)
    if not joined:
        return kept
    if form is UserForm.EXACT:
        notes[
            f"{len(spellings):,} users are {len(first):,} if case, blanks and Unicode forms of ids "
            "do not count: to join them, add --user-form folded"
        ] = 0
        return kept
    notes[f"{joined:,} users were joined with another spelling of their id"] = 0
    return [replace(record, user=first[folded(record.user)]) for record in kept]
