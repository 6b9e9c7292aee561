"""The records of real users with coins, and the scores of a user that follow from theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks.scores.membership_targets import Target
from attacks.texts.standing import Words, users_of, words_of
from audit.core.corpus import Record
from audit.core.secret import Secret

Reduced = Callable[[np.ndarray], np.ndarray]

_BLOCK = 13  # words in a row that two people write by copying only

OF_RECORDS: Mapping[str, Reduced] = {"mean": np.mean, "largest": np.max}  # declared beforehand


@dataclass(frozen=True)
class OwnTarget:
    """The whole records of users, each text once, however many users have it.

    places: for each secret, the places of its records; () for secrets of another kind.
    """

    records: Target
    places: tuple[tuple[int, ...], ...]

    def of_users(self, score: str, values: np.ndarray) -> dict[str, np.ndarray]:
        """Reduce a score of records, (n,), to the scores of users that are made of it, (s,) each.

        NaN for another kind, and for a user of whom a record was not read.
        """
        return {
            f"{name}_{score}": np.array(
                [reduced(values[list(own)]) if own else np.nan for own in self.places]
            )
            for name, reduced in OF_RECORDS.items()
        }


def own_target(secrets: Sequence[Secret], corpus: Sequence[Record] = ()) -> OwnTarget | None:
    """Collect the records of real users with coins; None where no user has any.

    What others wrote too may be known although the user is set aside. So records most of which
    stands with others are left out, and a user without other ones is not measured, whatever the
    coin; unless that is most users, who are then measured by all that they wrote.

    corpus: of everybody, as it was before any coin; so what is left out depends on none.
    """
    shared = _shared(secrets, corpus)
    own = [tuple(t for t in s.records if (s.owner, t) not in shared) for s in secrets]
    real = [secret for secret in secrets if secret.records]
    if 2 * sum(map(bool, own)) < len(real):
        own = [secret.records for secret in secrets]
    order: dict[tuple[str, str], int] = {}
    places = tuple(tuple(order.setdefault(("", t), len(order)) for t in some) for some in own)
    if not order:
        return None
    return OwnTarget(Target("record", tuple(order), np.arange(len(order))), places)


def _shared(secrets: Sequence[Secret], corpus: Sequence[Record]) -> set[tuple[str, str]]:
    """Find the records of users with coins most of whose blocks of words others wrote, too."""
    blocks = {(s.owner, text): _blocks(text) for s in secrets for text in s.records}
    stands = users_of({block for own in blocks.values() for block in own}, corpus)
    return {
        (owner, text)
        for (owner, text), own in blocks.items()
        if 2 * sum(not stands.get(block, set()) <= {owner} for block in own) > len(own)
    }


def _blocks(text: str) -> list[Words]:
    """Cut a text into blocks of words, without a shorter last one; a short text is one."""
    words = words_of(text)
    starts = range(0, max(1, len(words) - _BLOCK + 1), _BLOCK)
    return [words[start : start + _BLOCK] for start in starts]
