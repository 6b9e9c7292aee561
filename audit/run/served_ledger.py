"""The ledger of a served service: a keyed chain of rows whose end is stored outside its folder.

The seal of a row is a keyed hash of the row and of the seal before it; the first seal is that of
the service. The key, the number of rows and the last seal lie in this user's state folder, under
the hash of the service. So a ledger that is lost, cut, edited, copied or restored does not match.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from audit.core.errors import DamagedError, UsageError
from audit.core.files import read_json, read_lines
from audit.core.user_state import user_state
from audit.core.writing import append_lines, locked, make_folder, write_atomically

LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class _End:
    """The facts stored outside the ledger: its place, its key, and where its chain ends."""

    ledger: str
    key: str
    rows: int
    last: str


@final
@dataclass
class ServedLedger:
    """A journal (`audit.core.release.Journal`) of one process. Earlier rows stay spent.

    rows: what was charged so far. key: of this process's fingerprints and draws, new in each.
    """

    path: Path
    state: Path
    end: _End
    rows: list[dict[str, Any]]
    key: bytes = field(default_factory=lambda: os.urandom(64))

    def previous(self) -> Sequence[dict[str, Any]]:
        return [{**row, "query": -1} for row in self.rows]

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows, then the chain's new end: a kill between the two leaves rows that count."""
        sealed = []
        for row in rows:
            self.end = _next(self.end, row)
            sealed.append({"row": row, "seal": self.end.last})
        append_lines(self.path, sealed)
        _store(self.state, self.end)


@contextlib.contextmanager
def held(folder: Path, service: str) -> Iterator[ServedLedger]:
    """Lock the only ledger of a service and yield it; it is made at first use.

    service: hash of all that determines the service. Raises UsageError if another process has the
    ledger, or it is not the one that this service's charges were written to.
    """
    state = user_state("served") / f"{service}.json"
    with _locked(state.with_suffix(".lock"), folder):
        path = folder.absolute() / LEDGER
        known = _stored(state)
        if known is None and path.exists():
            raise UsageError(
                f"{path}: belongs to another service, or its record {state} is lost; restore "
                "the record from where the service ran, or name a new folder"
            )
        end = known or _first(path, service)
        rows, last = _chained(path, state, end, service)
        _make(path.parent)
        if known is None:
            _store(state, end)
        yield ServedLedger(path, state, replace(last, ledger=str(path)), rows)


def _chained(path: Path, state: Path, end: _End, service: str) -> tuple[list[dict[str, Any]], _End]:
    """Read all rows, each with a valid seal; return them and the end of their chain."""
    try:
        lines = read_lines(path)
    except (OSError, DamagedError):
        raise _refused(path, state, end, "is damaged") from None
    at = _first(path, service, end.key)
    reached, rows = at.last == end.last, list[dict[str, Any]]()
    for line in lines:
        row = line.get("row")
        at = _next(at, row)
        if not isinstance(row, dict) or at.last != line.get("seal"):
            raise _refused(path, state, end, f"was changed in row {at.rows}")
        reached = reached or (at.rows, at.last) == (end.rows, end.last)
        rows.append(row)
    if not reached:
        raise _refused(path, state, end, f"has {len(rows)} rows of {end.rows}")
    return rows, at


def _refused(path: Path, state: Path, end: _End, why: str) -> UsageError:
    where = "" if end.ledger == str(path) else f"; the ledger was last used at {end.ledger}"
    return UsageError(
        f"{path}: {why}{where}. Put the latest ledger back; without it the budget counts as spent. "
        f"Removing {state} starts a second budget, whose ε adds to the first"
    )


def _first(path: Path, service: str, key: str | None = None) -> _End:
    key = key or os.urandom(32).hex()
    return _End(str(path), key, 0, _seal(key, "", service))


def _next(end: _End, row: Any) -> _End:
    return replace(end, rows=end.rows + 1, last=_seal(end.key, end.last, row))


def _seal(key: str, before: str, content: Any) -> str:
    text = json.dumps([before, content], sort_keys=True).encode()
    return hmac.new(bytes.fromhex(key), text, hashlib.sha256).hexdigest()


def _stored(state: Path) -> _End | None:
    if not state.exists():
        return None
    try:
        end = _End(**read_json(state))
        bytes.fromhex(end.key)
    except (OSError, ValueError, TypeError):
        raise UsageError(
            f"{state}: the record of what this service has answered is damaged; put it back"
        ) from None
    return end


def _store(state: Path, end: _End) -> None:
    write_atomically(state, json.dumps(asdict(end)) + "\n", private=True)


def _make(folder: Path) -> None:
    try:
        make_folder(folder, private=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); name another folder"
        ) from None


@contextlib.contextmanager
def _locked(path: Path, folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except BlockingIOError:
            raise UsageError(f"{folder}: another process serves this service") from None
        yield
