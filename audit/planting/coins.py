"""Tosses the coins of owners: all that decides who is planted is the seed and their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.core.randomness import stream
from audit.core.secret import Coins


def toss(owners: Sequence[str], seed: int) -> Coins:
    """Toss two fair coins per owner: present, and slot."""
    present = stream(seed, "planting", "coins").integers(2, size=len(owners))
    slot = stream(seed, "planting", "second coins").integers(2, size=len(owners))
    return coins_of(owners, present, slot)


def coins_of(owners: Sequence[str], present: Iterable[int], slot: Iterable[int]) -> Coins:
    """Make coins from the outcomes of each owner, in order."""
    return Coins(
        present={owner: bool(c) for owner, c in zip(owners, present, strict=True)},
        slot={owner: int(c) for owner, c in zip(owners, slot, strict=True)},
    )
