"""Lots of people: who is asked about when, and which look's score of each counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Scores
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret
from audit.findings import bets
from audit.findings.adjusted import adjusted
from audit.findings.case import Case
from audit.findings.rejections import Family
from audit.measure import lots, release
from audit.results.schema import GuaranteeResult

CLAIM = no_guarantee("tests")
NONE: dict[str, Any] = {"budget": None, "remaining": None, "stopped_at": None, "epsilon_spent": []}
NO_SESSION = {"session": {"purpose": "a", "queries": 0, "answered": 0, **NONE}}
DEALT = [1, 0, 2, 0, 1]


def row(*values: float, score: str = "loss") -> dict[str, object]:
    return {"kind": "record", "target": "record", "score": score, "values": list(values)}


def test_earlier_lots_are_asked_about_first() -> None:
    assert lots.places(DEALT, 0) == [1, 3]
    assert lots.places(DEALT, 1) == [1, 3, 0, 4]
    assert lots.places(DEALT, 2) == [1, 3, 0, 4, 2]


def test_each_person_keeps_the_score_of_the_look_at_which_its_lot_was_new() -> None:
    first = lots.joined([], [row(0.1, 0.3)], DEALT, 0)
    assert first[0]["values"] == [None, 0.1, None, 0.3, None]
    later = lots.joined(first, [row(9, 9, 0.0, 0.4), row(8, 8, 7, 7, score="zlib")], DEALT, 1)
    assert later[0]["values"] == [0.0, 0.1, None, 0.3, 0.4]
    assert later[1]["values"] == [7, None, None, None, 7]  # a score that came later
    assert first[0]["values"] == [None, 0.1, None, 0.3, None]


def test_a_leak_to_insiders_alone_decides_nothing() -> None:
    people = [f"user {i}" for i in range(40)]
    secrets = tuple(Secret("record", "", name, "", None, 1, name, 0) for name in people)
    coins = Coins({name: i % 2 == 0 for i, name in enumerate(people)}, dict.fromkeys(people, 0))
    values = [float(i % 2 == 0) + i / 100 for i in range(40)]
    for access in (Access.SCORE, Access.GENERATE):
        case = Case("a", secrets, coins, 1e-5, 0, access, lots=10, guarantee=CLAIM)
        made = [bets.measurement(Scores("loss", "record", np.array(values)), case)]
        guarantee = GuaranteeResult.of(CLAIM)
        done = adjusted(made, {}, case.heads, guarantee, Family(2, 2, 0, 2, 10), 0).measurements
        assert done[0].adjusted_p is not None and done[0].adjusted_p < 1e-4
        assert bets.decided(done) is (access == Access.SCORE)


def test_references_are_asked_about_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stopped would have no tests of all people, and show no sight by them."""
    monkeypatch.setattr(release, "_measured_utility", lambda bench, one: ({}, [], []))
    for name in ("_in_lots", "_at_once"):
        monkeypatch.setattr(release, name, lambda bench, one, name=name: {name: NO_SESSION})
    bench: Any = SimpleNamespace(run=SimpleNamespace(plan=SimpleNamespace(lots=10)))
    for external, asked in ((True, "_in_lots"), (False, "_at_once")):
        one: Any = SimpleNamespace(external=external, written=None)
        held: Any = release.hold_sessions(bench, one)[2]
        assert list(held) == [asked]
