"""Tosses the coins of owners: all that decides who is planted is the seed and their number.

A shadow model is the same defense trained on other tosses, for membership attacks.
"""

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


def tosses(coins: Coins, count: int, seed: int) -> tuple[Coins, ...]:
    """Toss the coins of each shadow model.

    Of every pair of shadows exactly one is trained on an owner, so each candidate is in half of
    them (Carlini et al. 2022, arXiv 2112.03570). The first pairs do not depend on `count`.
    """
    shadows: list[Coins] = []
    owners = list(coins.present)
    for pair in range((count + 1) // 2):
        generator = stream(seed, "shadows", "coins", pair)
        first = generator.integers(2, size=len(owners))
        for present in (first, 1 - first):
            slot = generator.integers(2, size=len(owners))
            shadows.append(coins_of(owners, present, slot))
    return tuple(shadows[:count])
