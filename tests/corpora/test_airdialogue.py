"""AirDialogue: a line is a dialogue of the customer whom its intent names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Corpus
from tests.corpora.reading import jsonl, read
from tests.refusals import refusals

TURNS = ["customer: Hello.", "agent: Hello. How can I help?", "customer: I am {}."]


def line(name: Any, turns: list[str] = TURNS) -> dict[str, Any]:
    """One line in the layout of the release."""
    journey = {
        "departure_airport": "AAA", "return_airport": "BBB", "departure_month": "June",
        "departure_day": "7", "return_month": "June", "return_day": "9", "max_price": 500,
        "max_connections": 1,
    }  # fmt: skip
    return {
        "action": {"status": "book", "name": name, "flight": [1017]},
        "intent": {**journey, "goal": "book", "name": name},
        "timestamps": [1519233239],
        "dialogue": [turn.format(name) for turn in turns],
        "expected_action": {"status": "book", "name": name, "flight": [1017]},
        "search_info": [],
        "correct_sample": True,
    }


def published(folder: Path, train: list[str], dev: list[str]) -> Path:
    """The files of the release, with those that are no dialogues."""
    for part, names in (("train", train), ("dev", dev)):
        jsonl(folder / f"{part}_data.json", *map(line, names))
        jsonl(
            folder / f"{part}_kb.json", *({"kb": [{"price": 100}], "reservation": 0} for _ in names)
        )
    return folder


def test_a_dialogue_is_its_customers_record(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "talk.json", *map(line, ["Ann Lee", "Bo Fox", "Ann Lee"]))
    corpus = read(path)
    assert [r.user for r in corpus.records] == ["Ann Lee", "Bo Fox", "Ann Lee"]
    assert [r.name for r in corpus.records] == ["Ann Lee", "Bo Fox", "Ann Lee"]
    assert corpus.records[1].text == "\n".join(TURNS).format("Bo Fox")
    assert [r.where for r in corpus.records] == [f"{path}:{n}" for n in (1, 2, 3)]


def test_files_without_shared_customers_are_splits(tmp_path: Path) -> None:
    corpus = read(published(tmp_path, ["Ann Lee", "Bo Fox"], ["Cy Orr", "Di Poe"]))
    assert corpus.users("private") == ("Ann Lee", "Bo Fox")
    assert corpus.users("heldout") == ("Cy Orr", "Di Poe")


def test_with_shared_customers_a_fifth_is_held_out(tmp_path: Path) -> None:
    names = [f"Ann {letter * 3}" for letter in "ABCDEFGHIJ"]
    corpus = read(published(tmp_path, names, [*names[:9], "Cy Orr"]))
    assert len(corpus.records) == 20
    assert len(corpus.users("heldout")) == 11 // 5
    assert not set(corpus.users("heldout")) & set(corpus.users("private"))


def test_a_nameless_customer_is_its_own_user(tmp_path: Path) -> None:
    nameless = line("x")
    del nameless["intent"]["name"]
    corpus = read(jsonl(tmp_path / "talk.jsonl", line("Ann Lee"), nameless, nameless))
    assert len(corpus.users()) == 3
    assert [r.name for r in corpus.records] == ["Ann Lee", None, None]


def test_a_dialogue_without_a_turn_is_left_out(tmp_path: Path) -> None:
    corpus = read(
        jsonl(tmp_path / "talk.json", line("A B", []), line("Ann Lee"), line("C D", [" "]))
    )
    assert corpus.users() == ("Ann Lee",)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    before = f"\n{json.dumps(line('Ann Lee'))}\n"

    def write_and_read(bad: str) -> Corpus:
        path.write_text(f"{before}{bad}\n")
        return read(path)

    bad = {
        '{"text": "x"}': "no 'dialogue'",
        '{"dialogue": [1], "intent": {}}': "no 'dialogue'",
        '{"dialogue": "a", "intent": {}}': "no 'dialogue'",
        '{"dialogue": ["a"]}': "no 'dialogue'",
        '{"dialogue": ["a"], "intent": {"name": ["b"]}}': "'user'",
        '{"dialogue": ["a\\ud800"], "intent": {}}': "surrogate",
        '{"dialogue": ["a"': "broken JSON",
    }
    refusals(write_and_read, [(one, (f"{path}:3: ", words)) for one, words in bad.items()])


def test_lines_with_a_text_are_read_as_before(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", {"text": "a", "intent": {}}, {"text": "b", "dialogue": []})
    assert [r.text for r in read(path).records] == ["a", "b"]


@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_the_hub_are_read_like_lines(tmp_path: Path, hub: Any, shared: bool) -> None:
    train, dev = ["Ann Lee", "Bo Fox", "Cy Orr"], ["Ann Lee" if shared else "Di Poe"]
    parts = {"train": [line(n) for n in train], "validation": [line(n) for n in dev]}
    asked = hub({("google/air_dialogue", "air_dialogue_data"): parts})
    corpus = read("hf:google/air_dialogue/air_dialogue_data")
    assert asked == [("google/air_dialogue", "air_dialogue_data")]
    disk = read(published(tmp_path, train, dev))
    assert {(r.user, r.text, r.split) for r in corpus.records} == {
        (r.user, r.text, r.split) for r in disk.records
    }
    assert len(corpus.users("heldout")) == 1
