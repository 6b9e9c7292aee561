"""Count text that stands with several users: quoted replies, forwarded mail, near-duplicates.

A guarantee for users protects such text as a group of users only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.corpus import Record
from audit.core.visible import composed

RUN = 13  # words in a row that two people write by copying only
_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd: of hashes modulo 2^64
_QUOTED = re.compile(r"^\s*>", re.MULTILINE)
_FORWARDED = re.compile(r"^-{2,} ?(?:Original|Forwarded|Weitergeleitet|Ursprüngl)", re.M | re.I)
_NOT_LETTERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True)
class SharedText:
    """Private records with a run of words that stands with another user, too.

    records: how many of `of`. quoted, forwarded: those of them with marks of a quoted reply, or of
    forwarded mail. alike: records that are another user's whole, but for case, digits and
    punctuation. users: most users with whom one run stands.
    """

    of: int
    records: int
    quoted: int
    forwarded: int
    alike: int
    users: int

    @property
    def sentence(self) -> str:
        """Describe what is shared; "" where nothing is."""
        if not self.records and not self.alike:
            return ""
        marks = {"quote": self.quoted, "forward mail": self.forwarded}
        marked = ", ".join(f"{n:,} {what}" for what, n in marks.items() if n)
        return (
            f"{self.records:,} of {self.of:,} private records hold {RUN} words in a row of another "
            f"user{f' ({marked})' if marked else ''}, {self.alike:,} are another user's but for "
            f"case, digits and punctuation; one run stands with {self.users:,} users"
        )


def shared_text(records: Sequence[Record]) -> SharedText:
    """Count what the private records share with those of other users, whatever the coins."""
    own = [record for record in records if record.split in ("", "private")]
    number = {user: i for i, user in enumerate(dict.fromkeys(record.user for record in own))}
    users = np.array([number[record.user] for record in own], dtype=np.int64)
    shared, most = _shared(own, users)
    whole: dict[str, set[str]] = {}
    letters = [_NOT_LETTERS.sub(" ", composed(record.text).casefold()).strip() for record in own]
    for record, text in zip(own, letters, strict=True):
        whole.setdefault(text, set()).add(record.user)
    alike = [len(whole[text]) for text in letters]
    there = [record.text for record, holds in zip(own, shared, strict=True) if holds]
    return SharedText(
        of=len(own),
        records=len(there),
        quoted=sum(_QUOTED.search(text) is not None for text in there),
        forwarded=sum(_FORWARDED.search(text) is not None for text in there),
        alike=sum(count > 1 for count in alike),
        users=max([most, *alike], default=0),
    )


def _shared(records: Sequence[Record], users: np.ndarray) -> tuple[np.ndarray, int]:
    """Return which records hold a run of another user, and the most users of one run."""
    place: dict[str, int] = {}
    words = [
        [
            place.setdefault(word, len(place))
            for word in _WORD.findall(composed(record.text).casefold())
        ]
        for record in records
    ]
    lengths = np.array([len(own) for own in words], dtype=np.int64)
    flat = np.array([word for own in words for word in own], dtype=np.uint64)
    starts = max(0, flat.size - RUN + 1)
    of_record = np.repeat(np.arange(len(records)), lengths)
    inside = of_record[:starts] == of_record[flat.size - starts :]
    hashes = np.zeros(starts, dtype=np.uint64)
    for i in range(RUN):
        hashes = hashes * _FACTOR + flat[i : i + starts] * _FACTOR + np.uint64(1)
        hashes ^= hashes >> np.uint64(29)
    hashes, of_record = hashes[inside], of_record[:starts][inside]
    runs = np.unique(hashes, return_inverse=True)[1].reshape(-1)
    pairs = np.unique(np.stack([runs, users[of_record]]), axis=1)
    often = np.bincount(pairs[0]) if pairs.size else np.zeros(0, dtype=np.int64)
    shared = np.zeros(len(records), dtype=bool)
    shared[of_record[often[runs] > 1]] = True
    return shared, int(often.max(initial=0))
