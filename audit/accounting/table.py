"""A mechanism as plain JSON data, from which its ε can be recomputed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from audit.accounting.composition import epsilon
from audit.accounting.mechanism import Gaussians, Mechanism
from audit.core.errors import UsageError


def to_table(mechanism: Mechanism, delta: float) -> dict[str, Any]:
    """Makes {"relation", "delta", "terms": [{"noise_multiplier", "count", …}, …]}, unrounded."""
    terms = [asdict(term) for term in mechanism.terms]
    return {"relation": mechanism.relation, "delta": delta, "terms": terms}


def from_table(table: dict[str, Any]) -> tuple[Mechanism, float]:
    """Reads the mechanism and δ of `to_table`. Raises UsageError for anything else."""
    try:
        if set(table) != {"relation", "delta", "terms"}:
            raise ValueError(f"its keys are {sorted(table)}")
        terms = tuple(Gaussians(**term) for term in table["terms"])
        return Mechanism(terms, table["relation"]), float(table["delta"])
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"accounting table: {error}; it needs relation, delta and terms, as in results.json"
        ) from None


def recompute(table: dict[str, Any]) -> float:
    """Computes `epsilon` (nats) of a table's mechanism at its δ."""
    return epsilon(*from_table(table))
