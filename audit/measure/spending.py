"""Reads from the ledger rows of one session what its queries spent, part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def of_ledger(rows: Sequence[dict[str, Any]], epsilon: float | None) -> dict[str, Any]:
    """Compute the fields of a `SessionResult` that follow from its ledger.

    epsilon: claimed for each part, in nats; None or 0: no limit is read from it.
    """
    return {
        **stop(rows, epsilon or math.inf),
        "epsilon_spent": spent(rows)[-1] if rows else [],
        "epsilon_local": local(rows),
        "silent": silent(rows),
        "spent_curve": curve(rows),
    }


def cut(session: Mapping[str, Any], basis: str) -> bool | None:
    """Return whether a session ended before its queries did, and so within a try.

    basis: of its guarantee. None for a session that its answers cannot end: one without a budget,
    or whose charges are of the worst case, which is the same for every query.
    """
    if session["budget"] is None or basis == "worst case":
        return None
    return bool(session["answered"] < session["queries"])


def stop(rows: Sequence[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """Find the query that ended a session, the part that could not pay it, and its charge, nats.

    epsilon: of each part, nats. A session that used up its number of queries names no part.
    """
    last = next((row for row in rows if row["stopped"]), None)
    if last is None:
        return {"stopped_at": None}
    totals = [s + c for s, c in zip(spent(rows)[-1], last["charge"], strict=True)]
    short = [part for part, total in enumerate(totals) if total >= epsilon]
    if not short:
        return {"stopped_at": last["query"]}
    part = max(short, key=last["charge"].__getitem__)
    return {
        "stopped_at": last["query"], "stop_part": part + 1, "stop_charge": last["charge"][part],
    }  # fmt: skip


def spent(rows: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Add up charges, one list of parts a row. Rows of a killed process stay spent."""
    total = [0.0] * len(rows[0]["charge"])
    totals = []
    for row in rows:
        if not row["stopped"]:
            total = [t + c for t, c in zip(total, row["charge"], strict=True)]
        totals.append(total)
    return totals


def charges(rows: Sequence[dict[str, Any]], answered: int) -> list[list[float]]:
    """List what each of the first `answered` queries was charged, one number a part; [] without a
    ledger. Where a killed process asked another query at the same place, the later row counts."""
    last = {row["query"]: row["charge"] for row in rows if not row["stopped"]}
    return [last[query] for query in range(answered)] if rows else []


def local(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Add up what the answered queries cost each part on this data set; [] where unknown."""
    costs = [row["local"] for row in rows if "local" in row and not row["stopped"]]
    return [sum(part) for part in zip(*costs, strict=True)]


def silent(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Count the answered queries from which each part was excluded; [] where none can be."""
    lists = [row["silent"] for row in rows if "silent" in row and not row["stopped"]]
    parts = range(len(rows[0]["charge"])) if lists else ()
    return [sum(part in one for one in lists) for part in parts]


def curve(rows: Sequence[dict[str, Any]], points: int = 64) -> list[tuple[int, float]]:
    """Return (queries so far, largest ε that any part spent), thinned to about `points`."""
    if not rows:
        return []
    totals = spent(rows)
    step = max(1, -(-len(rows) // points))
    chosen = sorted({*range(0, len(rows), step), len(rows) - 1})
    return [(rows[i]["query"] + 1, max(totals[i])) for i in chosen]
