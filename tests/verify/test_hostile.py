"""Folders that were made to mislead, to hang or to crash: nothing of them is verified."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.digest import digest_of_json
from audit.measure import evidence_file
from audit.verify import verify
from tests.verify.conftest import Folder

Change = Callable[[Any], None]
Refused = Callable[..., str]
FILES = ("results.json", "evidence.json")


def planned(change: Change) -> Callable[[Folder], None]:
    """Changes the plan in both files that hold it, and its hash."""

    def edit(folder: Folder) -> None:
        def both(document: Any) -> None:
            plan = {k: v for k, v in document["plan"].items() if k != "hash"}
            change(plan)
            digest = digest_of_json(plan)
            document["plan"] = plan
            (document if "status" in document and "hash" in document else plan)["hash"] = digest

        folder.edit("results.json", both)
        folder.edit("manifest.json", both)
        folder.seal()

    return edit


@pytest.mark.parametrize("name", [*FILES, "ledger.jsonl", "stages/session-0.json"])
def test_what_never_ends_is_not_read(folder: Folder, refused: Refused, name: str) -> None:
    (folder.path / "stages").mkdir()
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    assert name in refused("verify", folder.path)


@pytest.mark.parametrize(
    "text",
    ["[1]\n", "{}\n", '{"session":[1],"row":{}}\n', "\x00\n"],
    ids=["list", "nameless", "oddly named", "no JSON"],
)
def test_a_ledger_that_is_none_is_found(folder: Folder, text: str) -> None:
    (folder.path / "ledger.jsonl").write_text(text)
    folder.seal()
    found = verify(folder.path)
    assert any("ledger.jsonl: cannot be read as a ledger" in line for line in found.differences)
    assert found.verified == ()


def test_a_manifest_that_is_nested_without_end_is_bad_input(
    folder: Folder, refused: Refused
) -> None:
    folder.edit("manifest.json", nested(800))
    assert "its manifest.json cannot be read" in refused("verify", folder.path)


def test_a_space_of_more_symbols_than_memory_is_bad_input(folder: Folder, refused: Refused) -> None:
    folder.edit("evidence.json", lambda d: d["drawn"].__setitem__(0, ["words", [10**12]]))
    assert "a space of more than 1,000,000 symbols" in refused("verify", folder.path)


def no_session(document: Any) -> None:
    document["releases"][0]["sessions"] = []


def nested(depth: int) -> Change:
    def edit(document: Any) -> None:
        inner: Any = 0
        for _ in range(depth):
            inner = [inner]
        document["plan"]["nested"] = inner

    return edit


MISSHAPEN = {
    "no defenses": planned(lambda plan: plan.pop("defenses")),
    "no attacks": planned(lambda plan: plan.pop("attacks")),
    "defenses of null": planned(lambda plan: plan.update(defenses=None)),
    "an endless δ": lambda f: f.edit("manifest.json", lambda d: d["plan"].update(delta=10**400)),
    "a nested plan": lambda f: f.edit("manifest.json", nested(50)),
    "no session": lambda f: f.edit("evidence.json", no_session),
    "an accounting of nothing": lambda f: f.edit(
        "evidence.json", lambda d: d["releases"][0]["guarantee"].update(accounting=[1])
    ),
}


@pytest.mark.parametrize("what", MISSHAPEN)
def test_what_no_run_writes_is_one_line_and_nothing_is_called_verified(
    what: str, folder: Folder
) -> None:
    MISSHAPEN[what](folder)
    folder.seal()
    found = verify(folder.path)
    assert found.differences and found.verified == ()
    assert all("\n" not in line for line in found.differences)


@pytest.mark.parametrize("seeds", [["x"], [None], [[1]], [1e300], [True], ["../../3"], None])
def test_seeds_that_are_no_numbers_are_bad_input(
    sweep: Folder, refused: Refused, seeds: Any
) -> None:
    planned(lambda plan: plan.update(seeds=seeds))(sweep)
    assert "its plan names no seeds" in refused("verify", sweep.path)


def test_a_hostile_name_makes_no_line_of_its_own(folder: Folder) -> None:
    folder.edit("manifest.json", lambda d: d["plan"].update({"a\nVERIFIED\r": 1}))
    assert str(api.verify(folder.path)).splitlines().count("VERIFIED") == 0


def test_a_measure_of_utility_that_nobody_made_is_found(folder: Folder) -> None:
    def praised(document: Any) -> None:
        utility = document["releases"][0]["utility"]
        utility["human_preference"] = {**utility["bleu4"], "value": 99.0, "ci": [98.0, 100.0]}

    folder.edit("results.json", praised)
    folder.seal()
    (line,) = verify(folder.path).differences
    assert line.startswith("releases.dp_sgd.utility.human_preference: stands")
    assert line.endswith("follows nothing")


def cheaper(document: Any, rows: list[Any]) -> None:
    """What a session spent follows from rows of which half are gone."""
    from audit.measure.spending import of_ledger

    (release,) = [r for r in document["releases"] if r["defense"] == "submix"]
    (session,) = [s for s in release["sessions"] if s["purpose"] == "extraction"]
    mine = [row["row"] for row in rows if row["session"].endswith("/extraction")]
    session.update(of_ledger(mine, 2.0))


def test_charges_that_are_gone_are_missed_though_the_session_agrees(folder: Folder) -> None:
    lines = (folder.path / "ledger.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    kept = [
        row
        for row in rows
        if not (row["session"].endswith("/extraction") and row["row"]["query"] % 2)
    ]
    folder.rows("ledger.jsonl", lambda rows: rows.__setitem__(slice(None), kept))
    folder.edit("results.json", lambda d: cheaper(d, kept))
    folder.seal()
    (line,) = verify(folder.path).differences
    assert line == "ledger.jsonl: submix:k=2/extraction was charged for 10 of 20 answers"


@pytest.fixture
def staged(folder: Folder) -> Folder:
    """The folder with the stages that its sessions would have left."""
    stages = folder.path / "stages"
    stages.mkdir()
    evidence = evidence_file.read(folder.path)
    results = json.loads((folder.path / "results.json").read_text("utf-8"))
    for i, (of, result) in enumerate(zip(evidence.releases, results["releases"], strict=True)):
        for session in result["sessions"]:
            attack = next((a for a in of.attacks if a.attack == session["purpose"]), None)
            seen = {"blocks": of.utility[0]["blocks"]}
            if attack is not None:
                seen = {"evidence": attack.seen, "tainted": attack.tainted}
            stage = {
                "of": [3, of.ledger],
                "seen": seen,
                "access": attack and attack.access,
                "session": session,
            }
            path = stages / f"session-{i}-{session['purpose']}.json"
            path.write_text(json.dumps(stage))
    return folder


def swap(document: Any, what: str, place: int) -> None:
    """Gives the first release what the last has, and the last what the first has."""
    first, last = document["releases"][0][what], document["releases"][-1][what]
    first[place], last[place] = last[place], first[place]


def test_sessions_that_are_there_are_those_of_the_run(staged: Folder) -> None:
    assert verify(staged.path).differences == ()


def test_session_that_the_results_leave_out_is_counted(staged: Folder) -> None:
    """An attack that found something can be taken out of the plan, the evidence and the results."""
    said = "stages/: what 1 session found, of which these results show nothing"
    assert said not in verify(staged.path).not_verifiable
    stages = staged.path / "stages"
    stage = json.loads((stages / "session-0-extraction.json").read_text("utf-8"))
    stage["session"]["purpose"] = "copies"
    (stages / "session-9-copies.json").write_text(json.dumps(stage))
    (stages / "session-torn.json").write_text("{")
    found = verify(staged.path)
    assert found.differences == () and said in found.not_verifiable


def test_sessions_without_owner_belong_to_no_release(staged: Folder) -> None:
    for path in (staged.path / "stages").iterdir():
        stage = json.loads(path.read_text("utf-8"))
        del stage["of"]
        path.write_text(json.dumps(stage))
    lines = verify(staged.path).differences
    assert lines and all(line.endswith("stands in no session of stages/") for line in lines)


@pytest.mark.parametrize(
    ("what", "place", "said"),
    [
        ("attacks", 0, "what extraction saw"),
        ("attacks", 2, "what membership saw"),
        ("utility", 0, "a measure of utility"),
    ],
)
def test_what_another_release_showed_is_none_of_this_one(
    staged: Folder, what: str, place: int, said: str
) -> None:
    staged.edit("evidence.json", lambda d: swap(d, what, place))
    staged.seal()
    lines = verify(staged.path).differences
    for name in ("dp_sgd", "none"):
        assert f"evidence.json: {said} of {name} stands in no session of stages/" in lines


def test_a_session_that_agrees_with_a_cheaper_ledger_is_none_that_was_held(
    staged: Folder,
) -> None:
    def halve(rows: list[Any]) -> None:
        for row in rows:
            row["row"]["charge"] = [charge / 2 for charge in row["row"]["charge"]]

    staged.rows("ledger.jsonl", halve)
    lines = (staged.path / "ledger.jsonl").read_text("utf-8").splitlines()
    staged.edit("results.json", lambda d: cheaper(d, [json.loads(line) for line in lines]))
    staged.seal()
    said = "results.json: session extraction of submix:k=2 stands in no session of stages/"
    assert said in verify(staged.path).differences


def test_what_only_digests_guard_is_listed(by_hand: Path) -> None:
    said = "\n".join(verify(by_hand).not_verifiable)
    for name in (
        *("not_tested", "samples.jsonl", "report.html", "tests of a family", "warnings"),
        *("reproduce", "audit plant", "sampling", "reached the training: contact, and sight"),
    ):
        assert name in said
