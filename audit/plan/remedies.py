"""Names what `--remedies` trains beside what is audited, to see which of it closes a leak."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.training import FineTuning

_FEWER = 4  # times fewer epochs
_CHEAPEST = "dp_sgd"  # with a promise for every user: one training, of somewhat longer steps


def remedies(named: Sequence[str], recipe: FineTuning) -> tuple[str, ...]:
    """List the defenses that are not named already.

    Deduplication, fewer epochs, and the cheapest defense with a promise for users.
    """
    fewer = max(1, recipe.epochs // _FEWER)
    shorter = [f"none:epochs={fewer}"] if fewer < recipe.epochs else []
    promising = any(text.partition(":")[0].strip() in (_CHEAPEST, "all") for text in named)
    wanted = ["none:dedup=near", *shorter, *([] if promising else [_CHEAPEST])]
    return tuple(text for text in wanted if text not in named)
