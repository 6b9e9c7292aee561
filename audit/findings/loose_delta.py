"""Warns of a δ that permits publishing one person's data outright."""

from __future__ import annotations

from audit.core.guarantee import Guarantee
from audit.core.terms import Unit
from audit.results.words import at_most


def loose_delta(claim: Guarantee, users: int, records: int) -> str:
    """State that δ of a claim is not below 1/N, and what that permits; empty for any other.

    N is the population that the mechanism was calibrated for or, where that is not known, what a
    corpus has of the unit. users, records: of the corpus.
    """
    n = claim.population or (users if claim.unit == Unit.USER else records)
    if claim.promises_nothing or claim.delta is None or claim.delta * n < 1:
        return ""
    return (
        f"δ = {at_most(claim.delta)} is not below 1/N (N = {n}): δ ≥ 1/N permits publishing one "
        "person's data outright"
    )
