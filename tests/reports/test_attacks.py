"""The tables of the attacks: all measures, release beside release, whatever the attack."""

from __future__ import annotations

from typing import Any

from audit.results.schema import Example, Results, SessionResult
from reports._content import attacks, unmeasured
from tests import by_hand as make


def test_all_measures_of_all_releases_stand_beside_each_other(four: Results) -> None:
    names = [release.defense for release in four.releases]
    found = attacks.attacks(four.releases, names)
    assert [attack.name for attack in found] == [
        "extraction", "exposure", "membership", "name leak"
    ]  # fmt: skip
    lines = [len(matrix.lines) for attack in found for matrix in attack.matrices]
    assert lines == [7, 3, 25, 3]
    (matrix,) = found[2].matrices
    assert [head.name for head in matrix.heads] == names
    loss, low = matrix.lines[:2]
    assert (loss.measure, loss.unit) == ("record loss AUC", "")
    assert (low.measure, low.unit) == ("record loss TPR at 1\u00a0% FPR", "share of members")
    audited, _, undefended, _ = loss.cells
    assert audited.controls == ["blind 0.51 [0.44, 0.58]"]
    assert (audited.mark, undefended.mark) == (attacks.STRONGER, "")
    assert (audited.leaked, undefended.leaked) == ("leak to insiders", "leak")
    assert (audited.claim, undefended.claim) == ("", "")


def test_what_no_release_could_measure_is_named_once(four: Results) -> None:
    membership = attacks.attacks(four.releases, list("abcd"))[2]
    assert "Not measured on any release: record loss TPR at 0.1\u00a0% FPR" in membership.note


def test_the_audited_come_first_and_many_are_parted() -> None:
    releases = [
        make.release("d", make.guarantee(1.0), make.finding(0.0), reference=i % 2 == 0)
        for i in range(12)
    ]
    (attack,) = attacks.attacks(releases, [str(i) for i in range(12)])
    parts = [[head.name for head in matrix.heads] for matrix in attack.matrices]
    assert parts == [["1", "3", "5", "7"], ["9", "11", "0", "2"], ["4", "6", "8", "10"]]
    assert attack.matrices[1].caption == "extraction, by release, part 2 of 3"


def test_an_attack_nobody_knows_is_shown_like_any_other() -> None:
    odd = make.finding(3.5, attack="my_probe", metric="odd_ratio", unit="widgets", ci=None)
    other = make.finding(0.0)
    releases = [
        make.release("submix", make.guarantee(2.0), odd),
        make.release("none", make.guarantee(None), other, reference=True),
    ]
    probe, extraction = attacks.attacks(releases, ["submix", "none"])
    (line,) = probe.matrices[0].lines
    assert (line.measure, line.unit) == ("odd ratio", "widgets")
    assert [cell.measured.text for cell in line.cells] == ["3.5", "—"]
    assert [cell.leaked for cell in line.cells] == ["no leak found", ""]
    assert extraction.matrices[0].lines[0].cells[0].leaked == ""


def test_an_attack_that_measured_nothing_has_no_table() -> None:
    nothing = make.finding(None, leaked="not measured")
    (attack,) = attacks.attacks([make.release("d", make.guarantee(1.0), nothing)], ["d"])
    assert attack.matrices == [] and attack.note == "Not measured on any release: hit rate."


def test_a_leak_without_a_value_has_its_line() -> None:
    """Ranks known within bounds only have no median, and their test may be rejected."""
    bounded = make.finding(None, leaked="leak", claim="refuted")
    (attack,) = attacks.attacks([make.release("d", make.guarantee(1.0), bounded)], ["d"])
    (cell,) = attack.matrices[0].lines[0].cells
    assert (cell.leaked, cell.claim, attack.note) == ("leak", "claim refuted", "")


def test_a_refuted_claim_stands_beside_the_leak() -> None:
    found = [make.finding(0.4, leaked="leak", claim=c) for c in ("refuted", "not refuted")]
    releases = [make.release("d", make.guarantee(1.0), f) for f in found]
    (attack,) = attacks.attacks(releases, ["a", "b"])
    cells = attack.matrices[0].lines[0].cells
    assert [(c.leaked, c.claim) for c in cells] == [("leak", "claim refuted"), ("leak", "")]


def test_examples_are_of_each_audited_leak_else_of_one_control_and_of_none() -> None:
    def shown(**planted: bool) -> list[str]:
        releases = []
        for name, leak in planted.items():
            example = Example(generation=7, prompt="My PIN is #", planted=leak)
            found = make.finding(0.5, examples=[example])
            one = make.release(name, make.guarantee(1.0), found)
            releases.append(one.model_copy(update={"reference": name.startswith("r")}))
        (attack,) = attacks.attacks(releases, [*planted])
        return attack.examples

    def line(name: str, what: str) -> str:
        return f"{name}, generation 8 of 100: “My PIN is #•••••”, {what} planted value."

    assert shown(one=False, two=True, three=True, r4=True) == [
        line("two", "a"), line("three", "a"), line("one", "no"),
    ]  # fmt: skip
    assert shown(one=False, r2=True, r3=True) == [line("r2", "a"), line("one", "no")]


def test_what_a_service_could_not_be_asked_is_said_once_with_what_to_do() -> None:
    open_session = SessionResult(
        purpose="extraction", queries=9, answered=9, budget=1024, remaining=0, stopped_at=None,
        epsilon_spent=[],
    )  # fmt: skip
    free = open_session.model_copy(update={"budget": None, "remaining": None})
    stopped = open_session.model_copy(update={"stopped_at": 61, "answered": 61})
    missing = [make.finding(None, leaked="not measured", metric=m, n=0) for m in ("a", "b")]
    few = make.finding(None, leaked="not measured", metric="needs more people", n=4)

    def sentences(session: SessionResult, **changes: Any) -> list[str]:
        one = make.release("d", make.guarantee(1.0), *missing, few, sessions=[session], **changes)
        return [*unmeasured.sentences([one], ["d"])]

    (sentence,) = sentences(open_session)
    assert sentence.startswith(
        "d: 2 measures were not made, because a session answers at most 1,024 queries. A larger"
    )
    assert "queries, and its ε ended the shortest after 61." in sentences(stopped)[0]
    assert sentences(free) == []  # nothing limits it
    assert sentences(open_session, reference=True) == []
