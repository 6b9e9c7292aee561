"""Shadow models: the same defense trained on freshly drawn members, for membership attacks."""

from __future__ import annotations

from audit.core.randomness import stream
from audit.core.secret import Coins
from audit.planting.coins import coins_of


def tosses(coins: Coins, count: int, seed: int) -> tuple[Coins, ...]:
    """Toss the coins of each shadow.

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
