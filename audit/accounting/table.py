"""A mechanism as plain JSON data, from which its ε can be recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from audit.accounting.banded_sums import BandedSums
from audit.accounting.composition import epsilon
from audit.accounting.gaussians import Gaussians
from audit.accounting.mechanism import Mechanism
from audit.accounting.term import Term
from audit.core.errors import UsageError

KINDS: dict[str, type[Term]] = {term.kind: term for term in (Gaussians, BandedSums)}


def to_table(mechanism: Mechanism, delta: float) -> dict[str, Any]:
    """Make {"relation", "delta", "terms": [{"kind", "noise_multiplier", …}, …]}, unrounded."""
    terms = [{"kind": term.kind, **_plain(asdict(term))} for term in mechanism.terms]
    return {"relation": mechanism.relation, "delta": delta, "terms": terms}


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Make lists of tuples, as they come back from JSON."""
    return {n: list(value) if isinstance(value, tuple) else value for n, value in fields.items()}


def from_table(table: dict[str, Any]) -> tuple[Mechanism, float]:
    """Read the mechanism and δ of `to_table`. Raises UsageError for anything else."""
    try:
        if set(table) != {"relation", "delta", "terms"}:
            raise ValueError(f"its keys are {sorted(table)}")
        return Mechanism(terms_of(table["terms"]), table["relation"]), float(table["delta"])
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"accounting table: {error}; it needs relation, delta and terms, as in results.json"
        ) from None


def terms_of(rows: Sequence[dict[str, Any]]) -> tuple[Term, ...]:
    """Read the terms of a table. Raises TypeError or ValueError for anything else."""
    return tuple(_term(**row) for row in rows)


def _term(kind: str, **fields: Any) -> Term:
    if kind not in KINDS:
        raise ValueError(f"the kind of a term is {kind!r}, not {' or '.join(KINDS)}")
    return KINDS[kind](**fields)


def recompute(table: dict[str, Any]) -> float:
    """Compute `epsilon` (nats) of a table's mechanism at its δ."""
    return epsilon(*from_table(table))
