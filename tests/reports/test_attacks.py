"""The tables of the attacks: all measures, release beside release, whatever the attack."""

from __future__ import annotations

from typing import Any

from audit.results.schema import Example, Results
from reports._content import attacks, legend
from reports._content.attacks import Attack
from tests import by_hand as make


def shown(*found: Any, **changes: Any) -> list[Attack]:
    """The sections of a run whose releases, a, b, …, have one finding each."""
    releases = [make.release("d", make.guarantee(1.0), f, **changes) for f in found]
    return attacks.attacks(make.named(releases, "abcdef"))


def test_all_measures_of_all_releases_stand_side_by_side(four: Results) -> None:
    names = [release.defense for release in four.releases]
    found = attacks.attacks(make.named(four.releases, names))
    lines = {a.name: [len(matrix.lines) for matrix in a.matrices] for a in found}
    assert lines == {"extraction": [7], "exposure": [3], "membership": [25], "name leak": [3]}
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
    assert "Not measured on any release: record loss TPR at 0.1\u00a0% FPR" in found[2].note


def test_audited_releases_come_first_in_parts() -> None:
    releases = [
        make.release("d", make.guarantee(1.0), make.finding(0.0), reference=i % 2 == 0)
        for i in range(12)
    ]
    (attack,) = attacks.attacks(make.named(releases, map(str, range(12))))
    parts = [[head.name for head in matrix.heads] for matrix in attack.matrices]
    assert parts == [["1", "3", "5", "7"], ["9", "11", "0", "2"], ["4", "6", "8", "10"]]
    assert attack.matrices[1].caption == "extraction, by release, part 2 of 3"


def test_unknown_attack_has_its_table() -> None:
    odd = make.finding(3.5, attack="my_probe", metric="odd_ratio", unit="widgets", ci=None)
    probe, extraction = shown(odd, make.finding(0.0))
    (line,) = probe.matrices[0].lines
    assert (line.measure, line.unit) == ("odd ratio", "widgets")
    assert [cell.measured.text for cell in line.cells] == ["3.5", "—"]
    assert [cell.leaked for cell in line.cells] == ["no leak found", ""]
    assert extraction.matrices[0].lines[0].cells[0].leaked == ""


def test_attack_without_measure_has_only_a_note() -> None:
    (attack,) = shown(make.finding(None, leaked="not measured"))
    assert attack.matrices == [] and attack.note == "Not measured on any release: hit rate."


def test_refuted_claim_stands_beside_the_leak() -> None:
    """Also without a value: ranks known within bounds only have no median, and are tested."""
    words = [(0.4, "refuted"), (0.4, "not refuted"), (None, "refuted")]
    (attack,) = shown(*(make.finding(x, leaked="leak", claim=claim) for x, claim in words))
    cells = attack.matrices[0].lines[0].cells
    assert [(c.leaked, c.claim) for c in cells] == [
        ("leak", "claim refuted"), ("leak", ""), ("leak", "claim refuted"),
    ]  # fmt: skip
    assert attack.note == ""


def test_examples_are_of_each_leak_and_one_control() -> None:
    def examples(**planted: bool) -> list[str]:
        releases = []
        for name, leak in planted.items():
            example = Example(generation=7, prompt="My PIN is #", planted=leak)
            found = make.finding(0.5, examples=[example])
            reference = name.startswith("r")
            releases.append(make.release(name, make.guarantee(1.0), found, reference=reference))
        (attack,) = attacks.attacks(make.named(releases, planted))
        return attack.examples

    def line(name: str, what: str) -> str:
        return f"{name}, generation 8 of 100: “My PIN is #•••••”, {what} planted value."

    assert examples(one=False, two=True, three=True, r4=True) == [
        line("two", "a"), line("three", "a"), line("one", "no"),
    ]  # fmt: skip
    assert examples(one=False, r2=True, r3=True) == [line("r2", "a"), line("one", "no")]


def test_measures_beyond_a_budget_are_counted_once() -> None:
    missing = [make.finding(None, leaked="not measured", metric=m, n=0) for m in ("a", "b")]
    few = make.finding(None, leaked="not measured", metric="needs more people", n=4)

    def sentences(reference: bool = False, **session: Any) -> list[str]:
        one = make.session(**{"stopped_at": None, "spent_curve": [], **session})
        release = make.release("d", make.guarantee(1.0), *missing, few, sessions=[one])
        named = make.named([release.changed(reference=reference)], "d")
        return [*legend.unmeasured(named)]

    (sentence,) = sentences()
    assert sentence.startswith(
        "d: 2 measures were not made, because a session answers at most 1,024 queries. A larger"
    )
    assert "queries, and its ε ended the shortest after 61." in sentences(
        stopped_at=61, answered=61
    )[0]  # fmt: skip
    assert sentences(budget=None, remaining=None) == []  # nothing limits it
    assert sentences(reference=True) == []
