"""The section of one release: a note for each finding, one for those that were not measured."""

from __future__ import annotations

from types import SimpleNamespace

from reports._content.detail import detail

WHY = "No test of the claim: this measure gives no bound on ε."


def test_findings_that_were_not_measured_for_one_reason_share_a_note(make: SimpleNamespace) -> None:
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
