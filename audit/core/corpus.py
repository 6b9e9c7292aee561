"""Texts by user, split into private, held-out and public."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field

SPLITS = ("private", "heldout", "public")


@dataclass(frozen=True, slots=True)
class Record:
    """One text of one user. `split` is "" until the corpus has been split; `where` is its place
    in the files it came from, for messages only; `private` holds the character spans that the
    plan's policy marks, in order and disjoint, () until it has been asked."""

    user: str
    text: str
    name: str | None = None
    split: str = ""
    where: str = field(default="", compare=False)
    private: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Population:
    """The public size of the private split: how many users and records there would be, had every
    coin come up. Mechanisms are fixed by it, so that neighbouring corpora run the same one."""

    users: int
    records: int


@dataclass(frozen=True)
class Corpus:
    """All records of a corpus, in the order of its files. `sha256` is of the records.

    public_size: the population the corpus was drawn from, where coins have been tossed.
    spare: the embedded public texts, which serve where no record is public.
    """

    name: str
    records: tuple[Record, ...]
    embedded: bool = False
    public_size: Population | None = None
    spare: tuple[str, ...] = ()

    def of(self, split: str) -> tuple[Record, ...]:
        """The records of one split: "private", "heldout" or "public"."""
        return tuple(record for record in self.records if record.split == split)

    def users(self, split: str | None = None) -> tuple[str, ...]:
        """User ids, each once, in order of first appearance."""
        chosen = self.records if split is None else self.of(split)
        return tuple(dict.fromkeys(record.user for record in chosen))

    @property
    def population(self) -> Population:
        """The public size; where no coin was tossed, what there is."""
        return self.public_size or Population(len(self.users("private")), len(self.of("private")))

    @property
    def sha256(self) -> str:
        """Hash of every record's user, name, split and text, in order."""
        digest = hashlib.sha256()
        for r in self.records:
            digest.update(json.dumps([r.user, r.name, r.split, r.text]).encode())
        return digest.hexdigest()

    @property
    def near_duplicates(self) -> int:
        """Records that repeat an earlier one when case, digits and punctuation are ignored."""
        kept = (re.sub(r"[\W\d_]+", " ", record.text.casefold()) for record in self.records)
        return len(self.records) - len({text.strip() for text in kept})
