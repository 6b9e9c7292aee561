"""A session's random stream is its own: two runs that differ in anything share no draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from audit.core.predictor import Access
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.measure.session import Session
from audit.measure.spending import charges, cut, stop
from audit.results.folder import RunFolder


@dataclass
class Spy:
    """A release whose sessions tell what their stream begins with."""

    drawn: list[float] = field(default_factory=list)
    guarantee = SimpleNamespace(epsilon=2.0)

    def open(self, stream: np.random.Generator, journal: Any) -> Any:
        self.drawn.append(stream.random())
        return SimpleNamespace(remaining=None, access=Access.GENERATE)


PLAN: dict[str, Any] = {
    "model": SimpleNamespace(sha256="m", max_length=512),
    "corpus": SimpleNamespace(sha256="c"),
    "seed": 0,
    "device": "cpu",
    "threads": 1,
    "source": SimpleNamespace(model={}),
}
ONE: dict[str, Any] = {"label": "gnmax", "parameters": {"k": 8}, "keys": ("a", "b")}


def first_draw(folder: Path, plan: dict[str, Any], one: dict[str, Any], purpose: str) -> float:
    spy = Spy()
    prepared: Any = SimpleNamespace(
        plan=SimpleNamespace(**plan), planted=SimpleNamespace(secrets=())
    )
    unused: Any = None
    audited = Audited(
        name="gnmax", reference=False, role="audited", release=cast(Any, spy), train_tokens=0,
        public=unused, shadows=list, **one,
    )  # fmt: skip
    run = RunFolder(folder, "hash")
    with run.held({}):
        Session(Bench(prepared, run), audited, purpose, []).stored(lambda predictor: ({}, 0, 0))
    return spy.drawn[0]


@pytest.mark.parametrize(
    ("plan", "one", "purpose"),
    [
        ({"seed": 1}, {}, "utility"),
        ({"model": SimpleNamespace(sha256="other", max_length=512)}, {}, "utility"),
        ({"model": SimpleNamespace(sha256="m", max_length=1024)}, {}, "utility"),
        ({"corpus": SimpleNamespace(sha256="other")}, {}, "utility"),
        ({"source": SimpleNamespace(model={"name": "out", "sha256": "f"})}, {}, "utility"),
        ({}, {"keys": ("a", "c")}, "utility"),
        ({}, {"parameters": {"k": 4}}, "utility"),
        ({}, {}, "exposure"),
    ],
)
def test_what_differs_draws_anew(
    tmp_path: Path, plan: dict[str, Any], one: dict[str, Any], purpose: str
) -> None:
    same = [first_draw(tmp_path / name, PLAN, ONE, "utility") for name in "ab"]
    assert same[0] == same[1]
    other = first_draw(tmp_path / "c", {**PLAN, **plan}, {**ONE, **one}, purpose)
    assert other != same[0]


def row(query: int, *charge: float, stopped: bool = False) -> dict[str, Any]:
    return {"query": query, "charge": [*charge], "stopped": stopped}


def test_charges_are_listed_by_query_and_end_with_stop() -> None:
    rows = [row(0, 0.1, 0.2), row(1, 0.3, 0.4), row(2, 9.0, 9.0, stopped=True)]
    assert charges(rows, 2) == [[0.1, 0.2], [0.3, 0.4]]
    assert charges(rows, 1) == [[0.1, 0.2]]
    assert charges([], 5) == []  # a model keeps no ledger


def test_what_a_killed_process_asked_is_charged_and_not_joined() -> None:
    """Its third query was another one than this session's; both stand in the journal."""
    rows = [row(0, 0.1), row(1, 0.2), row(2, 0.7), row(2, 0.3), row(3, 0.4)]
    assert charges(rows, 4) == [[0.1], [0.2], [0.3], [0.4]]


def test_only_a_session_of_an_attack_on_the_ledger_keeps_its_charges(tmp_path: Path) -> None:
    spy, unused = Spy(), cast(Any, None)
    prepared: Any = SimpleNamespace(
        plan=SimpleNamespace(**PLAN), planted=SimpleNamespace(secrets=())
    )
    audited = Audited(
        name="gnmax", reference=False, role="audited", release=cast(Any, spy), train_tokens=0,
        public=unused, shadows=list, **ONE,
    )  # fmt: skip
    run = RunFolder(tmp_path, "hash")
    with run.held({}):
        for charged in (True, False):
            session = Session(Bench(prepared, run), audited, f"a {charged}", [charged], charged)
            run.journal(session.name).append([row(0, 0.5)])
            stored = session.stored(lambda predictor: ({}, 1, 1))
            assert stored["charges"] == ([[0.5]] if charged else [])


@pytest.mark.parametrize(
    ("budget", "answered", "basis", "ended"),
    [(9, 5, "data-dependent", False), (9, 4, "data-dependent", True), (9, 4, "worst case", None),
     (None, 4, "data-dependent", None)],
)  # fmt: skip
def test_only_a_session_that_its_answers_can_end_may_end_within_a_try(
    budget: int | None, answered: int, basis: str, ended: bool | None
) -> None:
    assert cut({"budget": budget, "queries": 5, "answered": answered}, basis) is ended


def test_a_stop_names_the_part_that_could_not_pay() -> None:
    rows = [row(0, 0.4, 0.1), row(1, 0.3, 0.2), row(2, 0.2, 1.9, stopped=True)]
    assert stop(rows, 2.0) == {"stopped_at": 2, "stop_part": 2, "stop_charge": 1.9}
    rows[-1] = row(2, 1.4, 1.9, stopped=True)  # neither can pay: the one that costs most
    assert stop(rows, 2.0)["stop_part"] == 2


def test_a_stop_by_the_number_of_queries_names_no_part() -> None:
    rows = [row(0, 0.4, 0.1), row(1, 0.3, 0.2, stopped=True)]
    assert stop(rows, 2.0) == {"stopped_at": 1}
    assert stop(rows[:1], 2.0) == stop([], 2.0) == {"stopped_at": None}
