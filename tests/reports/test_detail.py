"""The section of one release: a note for each finding, and what is private about its sessions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.results.schema import ReleaseResult
from reports._content.detail import Detail, detail
from tests import by_hand as make

WHY = "No test of the claim: this measure gives no bound on ε."


def of(release: ReleaseResult) -> Detail:
    (one,) = make.named([release], ["x"])
    return detail(one)


def served(*sessions: dict[str, Any]) -> Detail:
    """A service that promises ε = 2 nats, with these sessions of 1,024 queries."""
    made = [make.session(**{"stopped_at": None, **one}) for one in sessions]
    return of(make.release("x", make.guarantee(2.0), sessions=made))


def test_findings_unmeasured_for_one_reason_share_a_note() -> None:
    lost = {"value": None, "leaked": "not measured"}
    found = [
        make.finding(0.1, metric="hit_rate"),
        make.finding(metric="recall", sentence="No answer.", **lost),
        make.finding(metric="verbatim", sentence="No record.", **lost),
        make.finding(metric="discoverable", sentence="No answer.", **lost),
        make.finding(metric="probability", sentence="No answer.", **(lost | {"access": "score"})),
    ]
    (group,) = of(make.release("x", make.guarantee(1.0), *found)).groups
    told = [(note.title.removeprefix("extraction, "), note.sentence) for note in group.notes]
    assert told[1:] == [
        ("recall; discoverable", f"No answer. {WHY}"),
        ("verbatim", f"No record. {WHY}"),
        ("probability", f"No answer. {WHY}"),
    ]
    assert group.notes[0].facts and group.notes[0].leaked != "not measured"


def test_cost_on_this_data_set_is_called_private() -> None:
    """The largest sum of any part: what the session would be charged on that basis."""
    silent = {"epsilon_spent": [1.9, 1.9]}
    found = served({**silent, "epsilon_local": [0.125, 0.75]}, silent)
    assert "cost 0.125 to 0.75 nats a part: a data-dependent figure, private" in found.spent
    assert "On this data set" in found.sessions.head[-1]
    assert "data-dependent, private" in found.sessions.head[-1]
    assert [row[-1] for row in found.sessions.rows] == ["0.75", "not worked out"]
    assert "On this data set" not in served(silent).sessions.head[-1]


@pytest.mark.parametrize(
    ("charge", "said"),
    [
        (2.18, "would have cost part 3 2.18 nats, 1,116 times an even share of ε"),
        (math.inf, "∞ nats, ∞ times an even share"),
        (0.1, ""),
    ],
)
def test_stop_by_one_costly_query_is_explained(charge: float, said: str) -> None:
    """An even share of ε = 2 over 1,024 queries is 2/1,024 nats; 2.18 nats are 1,116 of these."""
    caption = served({"stopped_at": 82, "stop_part": 3, "stop_charge": charge}).sessions.caption
    assert said in caption and (said != "" or caption == "Sessions")


def test_silence_of_parts_is_that_of_one_session() -> None:
    """Of the session with the most silence, whichever spent the most."""
    loud = {"answered": 1024, "silent": [0, 0, 0], "epsilon_spent": [1.5, 1.9, 1.7]}
    quiet = {**loud, "purpose": "extraction", "silent": [0, 3, 1], "epsilon_spent": [1.0] * 3}
    counted = (
        " Most silence in one session: 2 of 3 parts in up to 3 queries, 4 of 3,072 shares, in the "
        "extraction session. What a part's own account"
    )
    spent = served(loud, quiet).spent
    assert counted in spent and "1.9 nats" in spent
    assert spent.endswith("it is private, for the auditor only.")
    alone = served(loud, loud).spent
    assert " No part was silent in any query. What a part's own account" in alone
    assert "silent" not in served({**loud, "silent": []}).spent
