"""Holds one session with a release and stores what was measured as a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from audit.core.code import code_digest
from audit.core.digest import key_of
from audit.core.predictor import Predictor
from audit.core.randomness import stream
from audit.measure.releases import Audited
from audit.results.folder import RunFolder
from audit.results.schema import SessionResult
from audit.train.prepare import Prepared

_READERS = ("audit.measure.samples", "audit.models.causal")  # modules
Look = Callable[[Predictor], tuple[dict[str, Any], int, int]]  # seen, queries, answered


@dataclass(frozen=True)
class Session:
    """One session with a release, stored as a stage once it has ended.

    charged: whether the charges of every answered query are stored, too. code: modules that
        measure, beside those that read and answer.
    """

    prepared: Prepared
    one: Audited
    folder: RunFolder
    purpose: str
    what: list[Any]
    charged: bool = False
    code: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.one.determined[0]}/{self.purpose}"

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the session; it also seeds its randomness, so noise of
        different runs cannot be subtracted."""
        plan = self.prepared.plan
        secrets = [s.value for s in self.prepared.planted.secrets]
        answers = type(self.one.release).__module__
        return key_of(
            "session 4",
            code_digest(*sorted({*_READERS, answers, *self.one.code, *self.code})),
            [*self.one.determined, self.what, *plan.source.model.values()],
            [plan.model.sha256, plan.corpus.sha256, plan.seed, plan.device, plan.threads, secrets],
        )

    @property
    def stage(self) -> str:
        """The name of its stage."""
        return f"session-{self.key}"

    def stored(self, look: Look) -> dict[str, Any]:
        """Loads what was measured, or opens the session and measures it."""
        return self.folder.stored(self.stage, lambda: self._held(look))

    def _held(self, look: Look) -> dict[str, Any]:
        journal = self.folder.journal(self.name)
        own = stream(self.prepared.plan.seed, self.name, "session", self.key)
        predictor = self.one.release.open(own, journal)
        budget = predictor.remaining
        seen, queries, answered = look(predictor)
        rows = journal.rows()
        return {
            "seen": seen,
            "access": int(predictor.access),
            "charges": charges(rows, answered) if self.charged else [],
            "session": SessionResult(
                purpose=self.purpose,
                queries=queries,
                answered=answered,
                budget=budget,
                remaining=predictor.remaining,
                **stop(rows, self.one.release.guarantee.epsilon or math.inf),
                epsilon_spent=spent(rows)[-1] if rows else [],
                epsilon_local=local(rows),
                silent=silent(rows),
                spent_curve=curve(rows),
            ).model_dump(mode="json"),
        }


def stop(rows: Sequence[dict[str, Any]], epsilon: float) -> dict[str, Any]:
    """Tells the query that ended a session, the part that could not pay it, and its charge, nats.

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
    """Adds up charges, one list of parts a row. Rows of a killed process stay spent."""
    total = [0.0] * len(rows[0]["charge"])
    totals = []
    for row in rows:
        if not row["stopped"]:
            total = [t + c for t, c in zip(total, row["charge"], strict=True)]
        totals.append(total)
    return totals


def charges(rows: Sequence[dict[str, Any]], answered: int) -> list[list[float]]:
    """Lists what each of the first `answered` queries was charged, one number a part; [] without a
    ledger. Where a killed process asked another query at the same place, the later row counts."""
    last = {row["query"]: row["charge"] for row in rows if not row["stopped"]}
    return [last[query] for query in range(answered)] if rows else []


def local(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Adds up what the answered queries cost each part on this data set; [] where unknown."""
    costs = [row["local"] for row in rows if "local" in row and not row["stopped"]]
    return [sum(part) for part in zip(*costs, strict=True)]


def silent(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Counts the answered queries in which each part was silent; [] where none can be."""
    lists = [row["silent"] for row in rows if "silent" in row and not row["stopped"]]
    return (
        [sum(part in one for one in lists) for part in range(len(rows[0]["charge"]))]
        if lists
        else []
    )


def curve(rows: Sequence[dict[str, Any]], points: int = 64) -> list[tuple[int, float]]:
    """Returns (queries so far, largest ε that any part spent), thinned to about `points`."""
    if not rows:
        return []
    totals = spent(rows)
    step = max(1, -(-len(rows) // points))
    chosen = sorted({*range(0, len(rows), step), len(rows) - 1})
    return [(rows[i]["query"] + 1, max(totals[i])) for i in chosen]
