"""Assigns private texts to teachers by a keyed hash of the user, independently of all other users.

If parts were balanced, or users split by their number of texts, adding one user could move the
texts of many others, and the sensitivity would grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from audit.core.corpus import Record
from audit.core.digest import sha256_of


def teacher_of(user: str, slot: int, teachers: int, spread: int, key: int) -> int:
    """Return the teacher, 0 … M−1, of the slot-th record of a user.

    spread: most teachers J of one user, by a hash of slot mod J; they may coincide.
    key: seed of the hash.
    """
    words = f"{key}\x1f{slot % spread}\x1f{user}"
    return int(sha256_of(words), 16) % teachers


def partition(records: Sequence[Record], teachers: int, spread: int, key: int) -> tuple[int, ...]:
    """Return the teacher of each record; its slot is its place among its user's records."""
    seen: Counter[str] = Counter()
    placed = []
    for record in records:
        placed.append(teacher_of(record.user, seen[record.user], teachers, spread, key))
        seen[record.user] += 1
    return tuple(placed)


def histogram(heard: Iterable[tuple[str, int]]) -> dict[int, int]:
    """Count users by their number of teachers, from the (user, teacher) of each text.

    The counts are private: for the auditor only.
    """
    teachers: dict[str, set[int]] = {}
    for user, teacher in heard:
        teachers.setdefault(user, set()).add(teacher)
    return dict(sorted(Counter(map(len, teachers.values())).items()))
