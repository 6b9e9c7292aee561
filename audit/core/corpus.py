"""A corpus: texts by user, split into private, held-out and public."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

SPLITS = ("private", "heldout", "public")
Message = tuple[str, str]  # role and content
Texts = dict[str, dict[int, dict[str, str]]]  # users by a text's head, its length, and itself
_NUMBER = re.compile(r"[\w-]{7,}")  # shorter ones occur in public texts by accident
_HEAD = 24  # leading characters by which private records are looked up


@dataclass(frozen=True, slots=True)
class Record:
    """One text of one user.

    split: "private", "heldout" or "public"; "" before the corpus is split.
    where: place in the source files, for messages only.
    private: character spans that the plan's policy marks, in order and disjoint; () before the
        policy is applied.
    messages: the turns of a conversation; () for plain text. Its text is what the model's chat
        template makes of them, and until a model is known their roles and contents, line by line.
    learned: character spans in the loss of a training, in order and disjoint; () for all of it.
    """

    user: str
    text: str
    name: str | None = None
    split: str = ""
    where: str = field(default="", compare=False)
    private: tuple[tuple[int, int], ...] = ()
    messages: tuple[Message, ...] = ()
    learned: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A conversation around one turn, which a planted secret is, as the chat template writes it.

    before, after: the text around the turn. alone: whether the loss is of this turn alone.
    """

    before: str
    after: str
    alone: bool = False

    def learned(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of a planted text that are in the loss; () for all of it."""
        return ((len(self.before), len(text.rstrip())),) if self.alone else ()


@dataclass(frozen=True, slots=True)
class Population:
    """The public size of the private split: its users and records if every coin came up.

    Mechanisms depend on this size only, so neighbouring corpora run the same mechanism.
    """

    users: int
    records: int


@dataclass(frozen=True)
class Corpus:
    """All records of a corpus, in the order of its files.

    public_size: population from which coins selected the records; None without coins.
    spare: embedded public texts, used if no record is public.
    frame: what stands around a planted secret, in a corpus of conversations; else None.
    notes: what was recognised, joined or left out when it was read, a line each.
    user_is: how users were told apart when it was read, in words.
    aside: the records of real users with coins, where these were tossed elsewhere; no training,
        tokenizer or measure of utility reads them.
    """

    name: str
    records: tuple[Record, ...]
    embedded: bool = False
    public_size: Population | None = None
    spare: tuple[str, ...] = ()
    frame: Frame | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)
    user_is: str = field(default="", compare=False)
    aside: tuple[Record, ...] = ()

    def of(self, split: str) -> tuple[Record, ...]:
        """Return the records of one split: "private", "heldout" or "public"."""
        return tuple(record for record in self.records if record.split == split)

    def users(self, split: str | None = None) -> tuple[str, ...]:
        """List user ids, each once, in order of first appearance."""
        chosen = self.records if split is None else self.of(split)
        return tuple(dict.fromkeys(record.user for record in chosen))

    @property
    def population(self) -> Population:
        """The public size; without coins, the actual size."""
        return self.public_size or Population(len(self.users("private")), len(self.of("private")))

    @property
    def sha256(self) -> str:
        """Hash of every record's user, name, split and text, in order."""
        digest = hashlib.sha256()
        for r in self.records:
            digest.update(json.dumps([r.user, r.name, r.split, r.text]).encode())
        return digest.hexdigest()

    @cached_property
    def private_in_public(self) -> tuple[str, str] | None:
        """The place of the first public text that contains private text, and whose that is."""
        for record in self.of("public"):
            owner = self.owner_of(record.text)
            if owner is not None:
                return record.where, owner
        return None

    def owner_of(self, text: str) -> str | None:
        """Name the user whose private text a text contains; None for nobody's.

        Private text is a whole private record (spaces aside), or a word of at least seven
        characters with a digit that the policy marks.
        """
        texts, numbers = self._private_text
        owner = _owner(_spaced(text), texts)
        return owner or next((numbers[n] for n in _numbers(text) if n in numbers), None)

    @cached_property
    def _private_text(self) -> tuple[Texts, dict[str, str]]:
        private = self.of("private")
        return _texts(private), _numbers_of(private)

    @property
    def near_duplicates(self) -> int:
        """Number of records that repeat an earlier one except for case, digits and punctuation."""
        texts = (re.sub(r"[\W\d_]+", " ", record.text.casefold()) for record in self.records)
        return len(self.records) - len({text.strip() for text in texts})


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _texts(records: Sequence[Record]) -> Texts:
    """Index the users of private texts by a text's first characters, its length, and itself."""
    by_head: Texts = {}
    for record in records:
        text = _spaced(record.text)
        by_head.setdefault(text[:_HEAD], {}).setdefault(len(text), {}).setdefault(text, record.user)
    return by_head


def _owner(public: str, texts: Texts) -> str | None:
    """Find whose record is in a public text; a record shorter than a head must equal it."""
    for start in range(max(1, len(public) - _HEAD + 1)):
        for length, users in texts.get(public[start : start + _HEAD], {}).items():
            owner = users.get(public[start : start + length])
            if owner is not None:
                return owner
    return None


def _numbers_of(records: Sequence[Record]) -> dict[str, str]:
    """Map each marked number to its user."""
    return {
        number: record.user
        for record in records
        for low, high in record.private
        for number in _numbers(record.text[low:high])
    }


def _numbers(text: str) -> list[str]:
    return [word for word in _NUMBER.findall(text) if any(c.isdigit() for c in word)]
