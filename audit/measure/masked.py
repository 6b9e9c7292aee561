"""Secrets and coins without any value, name or text: as much as the statistics join.

Users and values are numbered in the order of planting, so equal values stay equal, and nobody can
find a five-digit code by trying all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

from audit.core.secret import Coins, Secret, Space
from audit.findings.case import value

T = TypeVar("T", bound=Hashable)
_SYMBOLS = 1_000_000  # of all places of a value; no run writes as many


def masked(secrets: Sequence[Secret], coins: Coins) -> dict[str, Any]:
    """Makes a table of JSON values from which `unmasked` gives secrets with the same findings.

    drawn: [words before a value, which hold nothing of the corpus, number of symbols at each
    place]; null for values that were not drawn. secrets: [kind, value, drawn, copies, owner, slot],
    numbers but for the kind. present, slot: the coins of each owner.
    """
    values, owners = _numbered(map(value, secrets)), _numbered(coins.present)
    drawn = _numbered(map(_drawn, secrets))
    return {
        "drawn": list(drawn),
        "secrets": [
            [s.kind, values[value(s)], drawn[_drawn(s)], s.copies, owners[s.owner], s.slot]
            for s in secrets
        ],
        "present": [bool(present) for present in coins.present.values()],
        "slot": [coins.slot[owner] for owner in coins.present],
    }


def unmasked(table: dict[str, Any]) -> tuple[tuple[Secret, ...], Coins]:
    """Restores secrets and coins; a value, and an owner, is called by its number."""
    drawn = [_space(*(one or ("", None))) for one in table["drawn"]]
    secrets = []
    for kind, number, of, copies, owner, slot in table["secrets"]:
        words, space = drawn[of]
        secrets.append(Secret(kind, words, f"{number}", "", space, copies, f"{owner}", slot))
    present = {f"{owner}": here for owner, here in enumerate(table["present"])}
    return tuple(secrets), Coins(present, dict(zip(present, table["slot"], strict=True)))


def _numbered(every: Iterable[T]) -> dict[T, int]:
    return {one: number for number, one in enumerate(dict.fromkeys(every))}


def _drawn(secret: Secret) -> tuple[str, tuple[int, ...]] | None:
    """How a value was drawn; of one that was not, the words before it may be private."""
    if secret.space is None:
        return None
    return secret.prefix, tuple(map(len, secret.space.symbols))


def _space(words: str, places: list[int] | None) -> tuple[str, Space | None]:
    if places is not None and sum(places) > _SYMBOLS:
        raise ValueError(f"a space of more than {_SYMBOLS:,} symbols")
    return words, None if places is None else Space(tuple(("",) * count for count in places))
