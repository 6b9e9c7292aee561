"""The section of one release: a note for each finding, one for those that were not measured."""

from __future__ import annotations

import math
from typing import Any

from audit.results.schema import Results
from reports._content.detail import detail, spent
from tests import by_hand as make

WHY = "No test of the claim: this measure gives no bound on ε."


def test_findings_that_were_not_measured_for_one_reason_share_a_note() -> None:
    lost = {"value": None, "leaked": "not measured"}
    found = [
        make.finding(0.1, metric="hit_rate"),
        make.finding(metric="recall", sentence="No answer.", **lost),
        make.finding(metric="verbatim", sentence="No record.", **lost),
        make.finding(metric="discoverable", sentence="No answer.", **lost),
        make.finding(metric="probability", sentence="No answer.", **(lost | {"access": "score"})),
    ]
    (group,) = detail(make.release("x", make.guarantee(1.0), *found), "x", "x").groups
    told = [(note.title.removeprefix("extraction, "), note.sentence) for note in group.notes]
    assert told[1:] == [
        ("recall; discoverable", f"No answer. {WHY}"),
        ("verbatim", f"No record. {WHY}"),
        ("probability", f"No answer. {WHY}"),
    ]
    assert group.notes[0].facts and group.notes[0].leaked != "not measured"


def test_the_cost_on_this_data_set_stands_beside_the_worst_case(results: Results) -> None:
    """The largest sum of any part: what the session would be charged on that basis."""
    release = next(r for r in results.releases if r.guarantee.epsilon == 2.0)
    spent = {"epsilon_spent": [1.9, 1.9], "epsilon_local": []}
    silent = release.sessions[0].model_copy(update=spent)
    told = silent.model_copy(update={"epsilon_local": [0.125, 0.75]})
    both = release.model_copy(update={"sessions": [told, silent]})
    found = detail(both, "x", "x")
    assert "cost 0.125 to 0.75 nats a part: a data-dependent figure, private" in found.spent
    assert "On this data set" in found.sessions.head[-1]
    assert "data-dependent, private" in found.sessions.head[-1]
    assert [row[-1] for row in found.sessions.rows] == ["0.75", "not worked out"]
    one = release.model_copy(update={"sessions": [silent]})
    assert "On this data set" not in detail(one, "x", "x").sessions.head[-1]


def test_a_stop_by_one_costly_query_is_explained(results: Results) -> None:
    """An even share of ε = 2 over 1,024 queries is 2/1,024 nats; 2.18 nats are 1,116 of these."""
    release = next(r for r in results.releases if r.guarantee.epsilon == 2.0)
    stop = {"budget": 1024, "stopped_at": 82, "stop_part": 3, "stop_charge": 2.18}
    costly = release.sessions[0].model_copy(update=stop)
    mild = costly.model_copy(update={"stop_charge": 0.1})
    said = "would have cost part 3 2.18 nats, 1,116 times an even share of ε"
    for session, explained in ((costly, True), (mild, False)):
        one = release.model_copy(update={"sessions": [session]})
        assert (said in detail(one, "x", "x").sessions.caption) == explained
    endless = costly.model_copy(update={"stop_charge": math.inf})
    one = release.model_copy(update={"sessions": [endless]})
    assert "∞ nats, ∞ times an even share" in detail(one, "x", "x").sessions.caption


def test_who_was_silent_is_said_to_the_auditor(results: Results) -> None:
    """Of the session with the most silence, whichever spent the most."""
    release = next(r for r in results.releases if r.guarantee.epsilon == 2.0)
    loud = {"answered": 1024, "silent": [0, 0, 0], "epsilon_spent": [1.5, 1.9, 1.7]}
    quiet = {**loud, "purpose": "extraction", "silent": [0, 3, 1], "epsilon_spent": [1.0] * 3}

    def said(*changed: dict[str, Any]) -> str:
        sessions = [release.sessions[0].model_copy(update=one) for one in changed]
        return spent(release.model_copy(update={"sessions": sessions}))

    counted = (
        " Most silence in one session: 2 of 3 parts in up to 3 queries, 4 of 3,072 shares, in the "
        "extraction session. What a part's own account"
    )
    assert counted in said(loud, quiet) and "1.9 nats" in said(loud, quiet)
    assert " No part was silent in any query. What a part's own account" in said(loud, loud)
    assert said(loud, quiet).endswith("it is private, for the auditor only.")
    assert "silent" not in said({**loud, "silent": []})
