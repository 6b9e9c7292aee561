"""How much `audit plant` plants, and what it states when that earns too little."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.secret import PLANTED
from audit.planting import manifest as manifests
from audit.planting.beacons import Tier
from audit.planting.budget import Budget, notes, within
from audit.planting.insertion import Canaries
from tests.refusals import refusals

# 15 % of 1,000 tokens a copy: room for so many copies
ROOM: list[tuple[int, tuple[str, ...], int, tuple[int, ...], list[tuple[str, int]]]] = [
    (10, ("code",), 20, (1,), []),
    (49, ("code",), 98, (1,), []),
    (50, ("code",), 100, (1,), []),
    (100, ("code", "record"), 100, (1,), []),
    (150, ("code", "id", "record"), 100, (1,), []),
    (199, ("code", "id", "record"), 100, (1,), [("code", 16)]),
    (200, PLANTED, 100, (1,), []),
    (232, PLANTED, 100, (1,), [("code", 16)]),
    (456, PLANTED, 100, (1,), [("code", 128)]),
    (712, PLANTED, 100, (1,), [("code", 256)]),
    (744, PLANTED, 100, (1,), [("code", 256), ("id", 16)]),
    (2248, PLANTED, 100, (1,), [("code", 256), ("id", 256), ("record", 256), ("name", 256)]),
    (2548, PLANTED, 100, (1, 4), [("code", 256), ("id", 256), ("record", 256), ("name", 256)]),
]


@pytest.mark.parametrize(("room", "kinds", "count", "copies", "beacons"), ROOM)
def test_the_budget_is_spent_in_its_order(
    room: int,
    kinds: tuple[str, ...],
    count: int,
    copies: tuple[int, ...],
    beacons: list[tuple[str, int]],
) -> None:
    budget = Budget(tokens=room * 0.85 / 0.15 * 10 + 1, a_copy=10)
    chosen = within(budget, Canaries(), (), PLANTED)
    assert (chosen.kinds, chosen.count, chosen.repetitions) == (kinds, count, copies)
    assert [(tier.kind, tier.users) for tier in chosen.beacons] == beacons
    assert chosen.expected_copies <= room


def test_large_corpora_get_people_and_smaller_beacons() -> None:
    chosen = within(Budget(10**9, 10), Canaries(), (), PLANTED)
    assert (chosen.count, chosen.repetitions) == (500, (1, 4, 16))
    sizes = [(tier.kind, tier.users) for tier in chosen.beacons]
    first = [(kind, 256) for kind in ("code", "id", "record", "name")]
    assert sizes == first + [(kind, 64) for kind, _ in first]
    assert chosen.expected_copies == 4 * (166 * 21 + 1 + 4) / 2 + 2 * 4 * (256 + 64)


def test_what_is_given_is_kept() -> None:
    budget = Budget(100, 10)
    asked = Canaries(("code", "id"), 30, (2,))
    assert within(budget, asked, ("kinds", "count", "repetitions"), ("code",)) == asked
    assert within(budget, Canaries(count=30), ("count",), ()).kinds == PLANTED
    assert within(Budget(10**9, 10), asked, ("count",), ()).count == 30


def remedied(line: str, tokens: float) -> tuple[float, float]:
    found = re.search(r"([\d,]+) tokens of text more, or --share ([\d.]+)", line)
    assert found is not None, line
    return tokens + int(found[1].replace(",", "")), float(found[2])


def test_every_remedy_is_enough() -> None:
    tokens = 2000.0
    budget = Budget(tokens, 10)
    chosen = within(budget, Canaries(), (), PLANTED)
    dropped, few, no_beacons = notes(budget, Canaries(), chosen, 300, True)
    assert dropped.startswith("not planted: id, name, record; they need ")
    assert few.startswith(
        'with 300 records and 70 people hardly any run can end in "no leak found"; leaks'
    )
    assert no_beacons.startswith("no beacons fit: an endpoint cannot earn")
    for line, kinds, count, users in (
        (dropped, 4, 100, 0),
        (few, 1, 80, 0),
        (no_beacons, 1, 70, 16),
    ):
        copies = kinds * count / 2 + 2 * users
        more, share = remedied(line, tokens)
        for better in (Budget(more, 10), Budget(tokens, 10, share)):
            assert better.copies >= copies > 0.8 * Budget(more, 10).copies


def test_notes_name_what_is_missing() -> None:
    rich = Budget(10**9, 10)
    whole = within(rich, Canaries(), (), PLANTED)
    assert notes(rich, Canaries(), whole, 300, True) == []
    (line,) = notes(rich, Canaries(), within(rich, Canaries(), (), ()), 300, False)
    assert line.startswith("no beacons: an endpoint cannot earn")
    small = Canaries(beacons=(Tier("code", 64),))
    lines = notes(Budget(100, 10), Canaries(), small, 300, True)
    assert "64 users, too few to be seen under a guarantee" in lines[0]
    assert "more than 15 % of all" in lines[1]


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., str]:
    """plant(text, records, output): what `audit plant` prints."""

    def run(text: str, records: int, output: str = "t.jsonl", **given: Any) -> str:
        source = tmp_path / "own.jsonl"
        rows = ({"text": f"{text} {i}", "user": f"u{i}"} for i in range(records))
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return api.plant(str(source), tmp_path / output, tmp_path / "m.json", seed=1, **given)

    return run


def test_a_whole_plan_ends_with_its_command(plant: Callable[..., str], tmp_path: Path) -> None:
    printed = plant("a text of some words that a user wrote", 3000, beacons="auto").splitlines()
    folder = str(tmp_path)
    assert printed[-1] == (
        f"audit run --defense as_is:base=BASE,training={folder}/t.jsonl --attack all --model MODEL "
        f"--secrets {folder}/m.json --corpus {folder}/t.jsonl"
    )
    assert any("no run has a positive control" in line for line in printed)
    assert not any("any run can end in" in line for line in printed)
    manifest = manifests.read(tmp_path / "m.json")
    assert manifest.share is not None and 0.1 < manifest.share <= 0.15
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    planted = [row for row in rows if row["user"] in manifest.invented]
    own = [row for row in rows if row["user"] not in manifest.invented]
    words = [sum(len(r["text"].split()) for r in some if r["split"] == "private")
             for some in (planted, own)]  # fmt: skip
    assert words[0] / sum(words) == pytest.approx(manifest.share, abs=0.03)  # coins as they fell
    assert {row["split"] for row in planted} == {"private"}
    heldout = sum(row["split"] == "heldout" for row in own)
    assert 0.17 < heldout / 3000 < 0.23  # a fifth, ± 4 sd


def test_small_corpora_are_told_what_they_lack(plant: Callable[..., str], tmp_path: Path) -> None:
    printed = plant("a text of some words that a user wrote", 300, beacons="auto")
    assert 'hardly any run can end in "no leak found"; leaks will still be found' in printed
    assert "no beacons fit" in printed and "--share 0." in printed
    manifest = manifests.read(tmp_path / "m.json")
    assert len(manifest.coins.present) < 80 and not manifest.beacons


@pytest.mark.parametrize("output", ["t.txt", "t"])
def test_outputs_decide_about_split_and_training_file(
    plant: Callable[..., str], output: str, tmp_path: Path
) -> None:
    printed = plant("some words", 40, output, count=4)
    if output == "t":
        assert f"training={tmp_path}/t/train.jsonl" in printed and "marked heldout" in printed
    else:
        assert f"training={tmp_path}/t.txt" in printed and "use --output FILE.jsonl" in printed


def test_one_user_alone_holds_nothing_out(plant: Callable[..., str]) -> None:
    printed = plant("some words", 1, count=4)
    assert "utility is not measured; add users, or mark some heldout" in printed


@pytest.mark.parametrize(
    ("text", "is_foreign"),
    [
        ("Привет, как дела", True),
        ("鍵はどこですか", True),
        ("Größe wählen für", False),
        ("Hi", False),
    ],
)
def test_texts_in_other_scripts_are_counted(
    plant: Callable[..., str], text: str, is_foreign: bool
) -> None:
    printed = plant(text, 30, count=4)
    assert ("planted text is English, 30 of 30 real records are not" in printed) == is_foreign


def test_impossible_budgets_are_refused(plant: Callable[..., str], tmp_path: Path) -> None:
    refusals(
        lambda given: plant("text", 5, **given),
        [
            ({"share": 0}, "--share 0: is a share of all tokens"),
            ({"share": 1.5}, "--share 1.5: is a share"),
            ({"share": "much"}, "--share is 'much'; expected a number"),
            ({"beacons": "some"}, "--beacons some: is auto or none"),
        ],
    )
    assert not (tmp_path / "m.json").exists()
