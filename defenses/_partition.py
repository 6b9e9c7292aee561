"""Which teacher a private text goes to: a keyed hash of its user, so that nobody moves another.

Balancing the parts, or splitting a user by how much there is of them, would make where a text goes
depend on other texts: adding one user could change many teachers, and the sensitivity with them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from audit.core.corpus import Record


def teacher_of(user: str, slot: int, teachers: int, spread: int, key: int) -> int:
    """The teacher, 0 … M−1, of the slot-th record of a user.

    spread: J, over how many teachers a user's records may go, by a hash of slot mod J; they may
    coincide. key: seeds the hash.
    """
    words = f"{key}\x1f{slot % spread}\x1f{user}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest(), "big") % teachers


def partition(records: Sequence[Record], teachers: int, spread: int, key: int) -> tuple[int, ...]:
    """The teacher of each record; a record's slot is its place among its user's records."""
    seen: Counter[str] = Counter()
    placed = []
    for record in records:
        placed.append(teacher_of(record.user, seen[record.user], teachers, spread, key))
        seen[record.user] += 1
    return tuple(placed)


def histogram(heard: Iterable[tuple[str, int]]) -> dict[int, int]:
    """How many users have texts with 1, 2, … teachers, from the user and teacher of each text.

    Private: for the auditor only.
    """
    teachers: dict[str, set[int]] = {}
    for user, teacher in heard:
        teachers.setdefault(user, set()).add(teacher)
    return dict(sorted(Counter(map(len, teachers.values())).items()))
