"""Lots of people who are asked about one after the other, and what was seen of all so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit.core.secret import Coins, Secret
from audit.findings import bets

_NAMES = ("kind", "target", "score")  # what tells the scores of an attack apart


def of_secrets(secrets: Sequence[Secret], coins: Coins, lots: int, seed: int) -> list[int]:
    """Deal the owners with coins into lots, from 0; return the lot of each secret's owner."""
    owners = list(coins.present)
    of = dict(zip(owners, bets.lots_of(len(owners), lots, seed).tolist(), strict=True))
    return [of[secret.owner] for secret in secrets]


def places(dealt: Sequence[int], lot: int) -> list[int]:
    """List the places of the secrets up to a lot, the earlier lots first. dealt: lot of each."""
    return sorted((i for i, own in enumerate(dealt) if own <= lot), key=lambda i: dealt[i])


def joined(
    earlier: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
    dealt: Sequence[int],
    lot: int,
) -> list[dict[str, Any]]:
    """Join scores to those of a session with all secrets: each has the scores of its own look.

    earlier: joined scores up to the lot before, as JSON values. now: of the secrets at `places`.
    The scores of those who are to come are None.
    """
    before = {_name(row): row["values"] for row in earlier}
    rows = []
    for row in now:
        values = [*before.get(_name(row), [None] * len(dealt))]
        for i, value in zip(places(dealt, lot), row["values"], strict=True):
            values[i] = value if dealt[i] == lot else values[i]
        rows.append({**row, "values": values})
    return rows


def _name(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _NAMES)
