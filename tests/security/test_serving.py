"""A served budget is spent once: by threads, forks, after its block, and whatever lies on disk."""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.ledger import Ledger
from audit.core.predictor import Answer
from audit.core.terms import Relation, Unit
from audit.run import served_ledger
from audit.run.promise import bound_per_user, public
from audit.run.service import Opened, Service

QUERY = {"query": 0, "asked": "a", "lambda": [], "charge": [1.0, 2.0], "stopped": False}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "llm-audit" / "served"


@dataclass
class OneAtATime:
    """A predictor that two callers must not use at once."""

    tokenizer: Any = field(
        default_factory=lambda: SimpleNamespace(
            start=0, stop=1, encode=lambda text: [2], decode=lambda ids: "x" * len(ids)
        )
    )
    max_length: int = 99
    remaining: int | None = None
    inside: int = 0
    most: int = 0
    broken: bool = False

    def generate(self, prompts: list[Any], length: int) -> list[Answer]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.002)
        self.inside -= 1
        if self.broken:
            raise OSError("disk full")
        return [Answer((3,) * length, np.zeros(length), np.zeros(length, dtype=bool), length)]


def service_of(predictor: OneAtATime) -> Service:
    public_model = SimpleNamespace(tokenizer=predictor.tokenizer)
    opened = Opened(cast(Any, None), cast(Any, public_model), "h")
    return Service(opened, cast(Any, predictor), 0)


def refused(call: Any) -> str:
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_threads_take_turns() -> None:
    predictor = OneAtATime()
    service = service_of(predictor)
    threads = [threading.Thread(target=service.complete, args=("a", 2)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert predictor.most == 1


def test_closed_service_answers_nothing() -> None:
    service = service_of(OneAtATime())
    assert service.complete("a", 2) == "xx"
    service.close()
    assert "closed" in refused(lambda: service.complete("a", 2))


def test_failed_transaction_ends_the_session() -> None:
    predictor = OneAtATime()
    service = service_of(predictor)
    assert "at least 1" in refused(lambda: service.complete("a", 0))
    assert service.complete("a", 1) == "x"  # a refused question is not a transaction
    predictor.broken = True
    with pytest.raises(OSError):
        service.complete("a", 1)
    predictor.broken = False
    assert "closed" in refused(lambda: service.complete("a", 1))


def test_forked_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(OneAtATime())
    own = os.getpid()
    service._turn.acquire()  # as a fork may find it: refused without waiting for it
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    assert "another process" in refused(lambda: service.complete("a", 1))
    service.close()


def test_ledger_of_threads_writes_each_charge_once() -> None:
    written: list[dict[str, Any]] = []

    class Slow:
        key = b"k"

        def previous(self) -> list[dict[str, Any]]:
            return []

        def append(self, rows: list[dict[str, Any]]) -> None:
            written.extend(rows)
            time.sleep(0.001)

    ledger = Ledger(1e9, 1, 10**6, Slow())

    def work(name: int) -> None:
        for i in range(20):
            ledger.admit(np.array([[1.0]]), np.array([[0.5]]), [f"{name}-{i}"])
            ledger.flush()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row["asked"] for row in written}) == len(written) == 160
    assert ledger.spent == [160.0]


# the file


def use(folder: Path, rows: int = 3, service: str = "s") -> list[dict[str, Any]]:
    with served_ledger.held(folder, service) as journal:
        before = journal.rows
        journal.append([QUERY] * rows)
        return list(before)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    use(tmp_path / "ledger")
    use(tmp_path / "ledger")
    return tmp_path / "ledger"


def test_rows_of_earlier_processes_are_read_and_moved_folders_followed(ledger: Path) -> None:
    assert len(use(ledger)) == 6
    ledger.rename(ledger.with_name("moved"))
    assert len(use(ledger.with_name("moved"), 0)) == 9
    assert (ledger.with_name("moved") / "ledger.jsonl").stat().st_mode & 0o777 == 0o600


def test_rows_written_before_a_kill_count(ledger: Path, state: Path) -> None:
    end = (state / "s.json").read_bytes()
    use(ledger, 2)
    (state / "s.json").write_bytes(end)  # killed between the rows and their end
    with (ledger / "ledger.jsonl").open("a") as stream:
        stream.write('{"row": {"que')
    assert len(use(ledger, 0)) == 8


def edits(path: Path) -> Iterator[tuple[str, str]]:
    """Name each change of a ledger, and the file after it."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    yield "cut", "".join(lines[:3])
    yield "emptied", ""
    yield "a row left out", "".join(lines[:2] + lines[3:])
    yield "two rows swapped", "".join([lines[1], lines[0], *lines[2:]])
    yield "a row twice", "".join([*lines, lines[-1]])
    for charge in ([0.0, 0.0], [math.nan, 0], [1.0], [], None):
        rows = [json.loads(line) for line in lines]
        for row in rows:
            row["row"]["charge"] = charge
        yield f"charges {charge}", "".join(json.dumps(row) + "\n" for row in rows)
    yield "no rows", "1\n{}\n[]\n"
    yield "no object", '{"row": 5, "seal": null}\n'


def test_changed_ledger_is_refused(ledger: Path) -> None:
    path = ledger / "ledger.jsonl"
    whole = path.read_text("utf-8")
    for name, text in edits(path):
        path.write_text(text)
        assert "Put the latest ledger back" in refused(lambda: use(ledger)), name
    path.write_text(whole)
    assert len(use(ledger, 0)) == 6


def test_lost_ledger_is_refused_wherever_the_next_one_lies(ledger: Path, tmp_path: Path) -> None:
    shutil.rmtree(ledger)
    assert "has 0 rows of 6" in refused(lambda: use(ledger))
    said = refused(lambda: use(tmp_path / "another"))
    assert "has 0 rows of 6" in said and str(ledger) in said


def test_service_that_answered_nothing_may_move(tmp_path: Path) -> None:
    assert use(tmp_path / "first", 0) == []
    assert use(tmp_path / "second", 2) == [] and len(use(tmp_path / "second", 0)) == 2


def test_copied_and_restored_ledgers_are_refused_once_outrun(ledger: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(ledger, tmp_path / "copy")
    use(ledger)
    assert "has 6 rows of 9" in refused(lambda: use(copy))
    shutil.copytree(copy, ledger, dirs_exist_ok=True)
    assert "has 6 rows of 9" in refused(lambda: use(ledger))


def test_ledger_of_another_service_or_machine_is_refused(ledger: Path, state: Path) -> None:
    assert "belongs to another service" in refused(lambda: use(ledger, service="other"))
    (state / "s.json").unlink()
    assert "its record" in refused(lambda: use(ledger))


def test_one_process_holds_a_ledger(ledger: Path) -> None:
    with served_ledger.held(ledger, "s"):
        assert "another process" in refused(lambda: use(ledger))


def test_each_process_has_draws_of_its_own(ledger: Path) -> None:
    keys = set()
    for _ in range(3):
        with served_ledger.held(ledger, "s") as journal:
            keys.add(journal.key)
    assert len(keys) == 3


# what is handed on


def claim(unit: str, relation: str, **more: Any) -> Guarantee:
    return Guarantee(2.0, unit, relation, "predictions", "worst case", "t", **more)


@pytest.mark.parametrize(
    ("guarantee", "line"),
    [
        (
            claim(Unit.USER, Relation.REPLACE, delta=1e-5),
            "per user: ε is at most 2 nats at δ = 1e-05",
        ),
        (
            claim(Unit.PART, Relation.REPLACE, alpha=2.0),
            "per user: D_α of order 2 is at most 2 nats",
        ),
        (
            claim(Unit.PART, Relation.REMOVED, alpha=2.0),
            "no bound per user: the promise is per part",
        ),
        (claim(Unit.RECORD, Relation.REPLACE), "no bound per user: the promise is per record"),
        (claim(Unit.PART, "emptied", conditions=("x", "per user (a): 8")), "per user (a): 8"),
    ],
)
def test_first_line_is_the_bound_per_user(guarantee: Guarantee, line: str) -> None:
    assert bound_per_user(guarantee).startswith(line)


def test_counts_of_private_text_stay_with_the_auditor() -> None:
    private = claim(Unit.USER, "replace", phrases=({"n": 7},), teachers_per_user={1: 3})
    assert not {"phrases", "teachers_per_user"} & set(public(private))
