"""Numbers and counts as readers see them."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number with its noun, one or many."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(share: float) -> str:
    """A share as a percentage with two or three significant digits."""
    if share == 0:
        return "0 %"
    return f"{100 * share:.3g} %" if share >= 1e-4 else f"{share:.1e}"
