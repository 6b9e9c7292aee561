"""The two sides of a comparison: the texts of users inside, and of users outside.

Of two corpora, or of a training file and the manifest whose coins decided who is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit.confounding.profile import Texts
from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError, did_you_mean
from audit.core.secret import OWN
from audit.corpora.part import as_text, stem
from audit.planting.coverage import canaries, copies_in
from audit.planting.manifest import Manifest
from audit.results.words import count

_MOST = 2_000  # users of both sides together: the classifier's kernel is the cost


@dataclass(frozen=True)
class Side:
    """Users of one side. name: of the side, for messages. users: the texts of each user.

    every: how many users there are, where some were drawn. lost: users of whom nothing was left.
    """

    name: str
    users: tuple[Texts, ...]
    every: int
    lost: int = 0

    def drawn(self, most: int, stream: np.random.Generator) -> Side:
        """Draw at most so many users."""
        chosen = np.sort(stream.permutation(len(self.users))[:most]).tolist()
        return replace(self, users=tuple(self.users[i] for i in chosen))


@dataclass(frozen=True)
class Sides:
    """Both sides. of_coins: whether a fair coin decided which side a user is on.

    notes: on how they were read, such as records that nothing says whose they are.
    """

    inside: Side
    outside: Side
    of_coins: bool = False
    notes: tuple[str, ...] = ()

    def drawn(self, stream: np.random.Generator) -> Sides:
        """Draw at most 2,000 users of both sides together, fewer of the larger side first."""
        sizes = len(self.inside.users), len(self.outside.users)
        keep = [min(a, max(_MOST // 2, _MOST - b)) for a, b in (sizes, sizes[::-1])]
        sides = zip((self.inside, self.outside), keep, strict=True)
        inside, outside = (side.drawn(most, stream) for side, most in sides)
        return replace(self, inside=inside, outside=outside)


def of_corpora(corpora: tuple[Corpus, Corpus], names: tuple[str, str]) -> Sides:
    """Group the records of two corpora by user, of every split: inside, and outside.

    A record without a user is one of its own. Raises UsageError for a user on both sides: the texts
    of a user are permuted together, so they can be on one side only.
    """
    texts = [_by_user(corpus.records, side) for side, corpus in enumerate(corpora)]
    both = sorted(texts[0].keys() & texts[1].keys())
    if both:
        raise UsageError(
            f"{names[1]}: user {both[0][0]!r} has texts in {names[0]}, too, as have "
            f"{len(both):,} in all; a user is in or out with all texts, so remove or "
            "rename one of the two, or name another column with --user"
        )
    here, there = (_side(name, own.values()) for name, own in zip(names, texts, strict=True))
    return Sides(here, there, notes=tuple(_shared(corpora)))


def _shared(corpora: tuple[Corpus, Corpus]) -> Iterator[str]:
    """Note texts that stand on both sides."""
    inside, outside = ({record.text for record in corpus.records} for corpus in corpora)
    if both := len(inside & outside):
        yield (
            f"{count(both, 'text')} on both sides, letter by letter: members and others at once, "
            "on which no attack can be tested"
        )


def _by_user(records: Iterable[Record], side: int) -> dict[tuple[str, int], Texts]:
    """Group texts by user; users whose id is only the place of their record, by side as well."""
    texts: dict[tuple[str, int], list[str]] = {}
    for record in records:
        own = (record.user, side if _is_place(record) else -1)
        texts.setdefault(own, []).append(record.text)
    return {user: tuple(own) for user, own in texts.items()}


def _is_place(record: Record) -> bool:
    """Return whether nothing says whose a record is, so that its user is named by its line."""
    name, _, line = record.user.rpartition("-")
    place, _, number = record.where.rpartition(":")
    path = Path(place)
    files = (as_text(path), as_text(path.with_name(stem(path))))  # of tables, and of plain text
    named = name == "line" or any(f"/{file}".endswith(f"/{name}") for file in files)
    return named and line == number


def of_manifest(
    manifest: Manifest, aside: Iterable[Record], training: Corpus, file: str, kind: str
) -> Sides:
    """Take the people of one kind whose coins decided who is trained on, as they stand in a file.

    kind: "own" for real users, whose records in the file are compared with those kept aside of the
    users whose coin was tails; else a kind of secret, whose copies that stand in the file are
    compared with the twins that would have been planted. aside: records of all real users with
    coins. training: the training file; file: its name. Raises UsageError for another file or kind.
    """
    known = [*dict.fromkeys(s.kind for s in manifest.secrets), *([OWN] if manifest.own else [])]
    if kind not in known:
        raise UsageError(
            f"--kind {kind}: the manifest has no such people{did_you_mean(kind, known)}"
        )
    trained_on = [record for record in training.records if record.split in ("", "private")]
    inside, outside = (
        _real(manifest, aside, trained_on, file)
        if kind == OWN
        else _planted(manifest, kind, trained_on)
    )
    kept = [texts for texts in inside if texts]
    if not kept:
        raise UsageError(
            f"{file}: holds no {'record' if kind == OWN else kind} of those whose coin was heads; "
            "give the file that was trained on, with its users, or the manifest that belongs to it"
        )
    names = f"{file}, heads", "the manifest, tails"
    here = replace(_side(names[0], kept), lost=len(inside) - len(kept))
    return Sides(here, _side(names[1], outside), of_coins=True)


def _side(name: str, users: Iterable[Texts]) -> Side:
    kept = tuple(users)
    return Side(name, kept, len(kept))


def _real(
    manifest: Manifest, aside: Iterable[Record], trained_on: Iterable[Record], file: str
) -> tuple[list[Texts], list[Texts]]:
    """Return the texts of real users: in the file of heads, kept aside of tails."""
    present = {} if manifest.own is None else manifest.own.coins.present
    there: dict[str, list[str]] = {user: [] for user in present}
    kept: dict[str, list[str]] = {user: [] for user in present}
    for records, texts in ((trained_on, there), (aside, kept)):
        for record in records:
            if record.user in texts:
                texts[record.user].append(record.text)
    for user, here in present.items():
        if there[user] and not here:
            raise UsageError(
                f"{file}: holds records of user {user!r}, whose coin set them aside; give the file "
                "that was planted with this manifest"
            )
    inside = [tuple(there[user]) for user, here in present.items() if here]
    return inside, [tuple(kept[user]) for user, here in present.items() if not here]


def _planted(
    manifest: Manifest, kind: str, trained_on: Iterable[Record]
) -> tuple[list[Texts], list[Texts]]:
    """Return the planted texts of invented users: those in the file of heads, the twins of tails.

    Of each copy the words before its value and the value: what follows is of no coin.
    """
    own = [secret for secret in manifest.secrets if secret.kind == kind]
    found = copies_in((record.text for record in trained_on), canaries(own, manifest.coins))
    inside = [
        (secret.prefix + secret.value,) * min(secret.copies, found[secret.prefix + secret.value])
        for secret in own
        if manifest.coins.planted(secret)
    ]
    twins = [secret for secret in own if manifest.coins.twin(secret)]
    return inside, [(twin.prefix + twin.value,) * twin.copies for twin in twins]
