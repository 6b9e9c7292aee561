"""Contact of real users with coins: were their own records trained on elsewhere?

A difference between heads and tails is its own contact. A training of this tool is counted. Of one
elsewhere two things together show it: beacons of records, planted in the same file, are seen by a
score that reads these users' records, and the stated training text holds the records of those who
stayed, by token ids, and of nobody who was set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from audit.core.predictor import token_mask
from audit.core.secret import OWN
from audit.findings.shows import STATED, not_shown, shown
from audit.measure.releases import Audited
from audit.plan.conversations import rendered
from audit.plan.source import PlantedElsewhere
from audit.planting.training_rows import of_file
from audit.prepare.run import Run
from audit.results.silence import Link
from audit.results.words import count
from audit.silence.counted import REACHED
from audit.silence.spike import Key

_UNSEEN = "It is not shown that the records of real users with coins were trained on"
_FIRST, _PIECE = 8, 32  # tokens by which a record is looked up, and by which it is recognised
Piece = tuple[int, ...]


def contact(run: Run, one: Audited, sight: Mapping[Key, Link]) -> Mapping[str, Link]:
    """Find whether the records of real users reached a release of a training elsewhere.

    sight: by beacons, of measures that read these users' records among others.
    """
    source = run.plan.source
    if not one.external or not isinstance(source, PlantedElsewhere) or OWN not in source.kinds:
        return {}
    seen = [link for (_, name), link in sight.items() if name.startswith(f"{OWN}_")]
    found = next((link for link in seen if link.shown), None)
    if found is None:
        why = seen[0].by if seen else "no beacons of records are in the file (--beacons auto)"
        return {OWN: not_shown(f"{_UNSEEN}: {why}.")}
    if source.external.training is None:
        why = "state the training file (as_is:training=FILE)"
        return {OWN: not_shown(f"{_UNSEEN}: {why}.", found.n)}
    there = holdings(run)
    if there.fault:
        return {OWN: not_shown(f"{_UNSEEN}: {source.stated} {there.fault}.", there.heads)}
    stayed = count(there.held, "real user whose coin was heads", "real users whose coin was heads")
    by = f"that {found.by}; records of {stayed}, and of nobody set aside, were trained on {STATED}"
    return {OWN: shown(f"{by} {source.stated}", there.held)}


@dataclass(frozen=True)
class Holdings:
    """Users with coins whose records can be told from everybody else's: how many of those who
    stayed a training file holds with all records, and how many set aside with any."""

    heads: int
    held: int
    tails: int

    @property
    def fault(self) -> str:
        """State why the file does not show that the coins decided; "" where it does."""
        if self.tails:
            return f"holds records of {count(self.tails, 'user')} set aside"
        if self.held < max(1.0, REACHED * self.heads):
            return f"holds all records of {self.held} of {self.heads} users whose coin was heads"
        return ""


def holdings(run: Run) -> Holdings:
    """Look the records of users with coins up in the stated training file, by token ids."""
    source = run.plan.source
    assert isinstance(source, PlantedElsewhere) and source.external.training is not None
    present = {s.owner: run.planted.coins.present[s.owner] for s in run.planted.secrets
               if s.kind == OWN}  # fmt: skip
    pieces = _pieces(run, present)
    context = run.plan.model.max_length
    rows = of_file(
        source.external.training, run.tokenizer, context, rendered(run.tokenizer, context)
    )
    index = _index({piece for own in pieces.values() for piece in own})
    there = {
        piece
        for row in rows
        for place, piece in _found(row.tokens, index)
        if all(row.learned[place : place + len(piece)])
    }
    known = {user: own for user, own in pieces.items() if own}
    return Holdings(
        heads=sum(present[user] for user in known),
        held=sum(present[user] and own <= there for user, own in known.items()),
        tails=sum(not present[user] and bool(own & there) for user, own in known.items()),
    )


def _pieces(run: Run, users: Mapping[str, bool]) -> dict[str, set[Piece]]:
    """Take the first tokens in the loss of each record that no other user's record holds."""
    tokens = [tuple(run.tokenizer.encode(record.text)) for record in run.before_coins]
    own: dict[Piece, set[str]] = {}
    for record, row in zip(run.before_coins, tokens, strict=True):
        if record.user in users:
            spans = record.learned or ((0, len(record.text)),)
            first = token_mask(run.tokenizer.ends(record.text), spans).index(True)
            own.setdefault(row[first : first + _PIECE], set()).add(record.user)
    index = _index(own)
    for record, row in zip(run.before_coins, tokens, strict=True):
        for _, piece in _found(row, index):
            own[piece].add(record.user)
    pieces: dict[str, set[Piece]] = {user: set() for user in users}
    for piece, owners in own.items():
        if len(owners) == 1 and len(piece) >= _FIRST:
            pieces[next(iter(owners))].add(piece)
    return pieces


def _index(pieces: Mapping[Piece, object] | set[Piece]) -> dict[Piece, list[Piece]]:
    index: dict[Piece, list[Piece]] = {}
    for piece in pieces:
        index.setdefault(piece[:_FIRST], []).append(piece)
    return index


def _found(
    tokens: Sequence[int], index: Mapping[Piece, Sequence[Piece]]
) -> Iterator[tuple[int, Piece]]:
    row = tuple(tokens)
    for place in range(len(row)):
        for piece in index.get(row[place : place + _FIRST], ()):
            if row[place : place + len(piece)] == piece:
                yield place, piece
