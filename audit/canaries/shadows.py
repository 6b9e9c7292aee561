"""Shadow models: the same defense on other tosses of the same coins, for attacks that compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.core.randomness import derived_seed, stream
from audit.core.secret import Coins


def tosses(coins: Coins, count: int, seed: int) -> tuple[Coins, ...]:
    """The coins of each shadow, an even number of them.

    Of every pair of shadows exactly one is trained on an owner, so that each candidate has as many
    with it as without (Carlini et al. 2022, arXiv 2112.03570), and the first two are the same
    however many follow.
    """
    made: list[Coins] = []
    owners = list(coins.present)
    for pair in range((count + 1) // 2):
        generator = stream(seed, "shadows", "coins", pair)
        first = generator.integers(2, size=len(owners))
        for present in (first, 1 - first):
            slot = generator.integers(2, size=len(owners))
            made.append(
                Coins(
                    present={o: bool(p) for o, p in zip(owners, present, strict=True)},
                    slot={o: int(s) for o, s in zip(owners, slot, strict=True)},
                )
            )
    return tuple(made[:count])


def seeded(tossed: Sequence[Coins], seed: int) -> Iterator[tuple[int, Coins]]:
    """Each shadow's own training seed, with its coins."""
    for j, coins in enumerate(tossed):
        yield derived_seed(seed, "shadows", j), coins
