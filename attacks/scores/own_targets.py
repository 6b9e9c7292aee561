"""The records of real users with coins, and the scores of a user that follow from theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks.scores.membership_targets import Target
from audit.core.secret import Secret

Reduced = Callable[[np.ndarray], np.ndarray]

OF_RECORDS: Mapping[str, Reduced] = {"mean": np.mean, "largest": np.max}  # declared beforehand


@dataclass(frozen=True)
class OwnTarget:
    """The whole records of users, each text once, however many users have it.

    places: for each secret, the places of its records; () for secrets of another kind.
    """

    records: Target
    places: tuple[tuple[int, ...], ...]

    def of_users(self, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Reduce scores of records, (n,), to each score of users: its name, one a secret, (s,).

        NaN for another kind, and for a user of whom a record was not read.
        """
        for name, reduced in OF_RECORDS.items():
            each = [reduced(values[list(own)]) if own else np.nan for own in self.places]
            yield name, np.array(each)


def own_target(secrets: Sequence[Secret]) -> OwnTarget | None:
    """Collect the records of real users with coins; None where no user has any."""
    order: dict[tuple[str, str], int] = {}
    places = tuple(
        tuple(order.setdefault(("", text), len(order)) for text in secret.records)
        for secret in secrets
    )
    if not order:
        return None
    return OwnTarget(Target("record", tuple(order), np.arange(len(order))), places)
