"""Names the most exposed real users, by their own record numbers, where secrets are revealed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.evidence import Scores, from_json
from audit.core.secret import OWN
from audit.core.writing import write_atomically
from audit.measure.attacked import Attacked
from audit.measure.release import Measured
from audit.prepare.run import Run

NAME = "exposed.jsonl"


def write(folder: Path, run: Run, measured: Iterable[Measured]) -> None:
    """Write every real user with a coin by falling score, readable by its owner only.

    A row is of one release: user, whether the user stayed, score, and the places of the user's
    records in the corpus. Nothing is written where no user has a coin.
    """
    places: dict[str, list[str]] = {}
    for record in run.before_coins:
        places.setdefault(record.user, []).append(record.where)
    rows = [
        {**row, "records": places.get(row["user"], [])}
        for one in measured
        for row in _rows(one, run)
    ]
    if rows:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_atomically(folder / NAME, text, private=True)


def _rows(measured: Measured, run: Run) -> Iterator[dict[str, Any]]:
    present = run.planted.coins.present
    for seen in measured.attacked:
        scores = _scores(seen)
        for user in sorted(scores, key=lambda user: -scores[user]):
            yield {
                "release": measured.audited.label,
                "user": user,
                "stayed": present[user],
                "score": round(scores[user], 6),
            }


def _scores(seen: Attacked) -> dict[str, float]:
    """Return the named score of each real user that was measured."""
    named = (one for one in map(from_json, seen.seen) if isinstance(one, Scores))
    values = next((one.values for one in named if one.kind == OWN and one.named), None)
    if values is None:
        return {}
    pairs = zip(seen.case.secrets, np.asarray(values).tolist(), strict=True)
    return {s.owner: value for s, value in pairs if s.kind == OWN and value == value}
