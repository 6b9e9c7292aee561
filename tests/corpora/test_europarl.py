"""Europarl: a line is a record, of its speaker where one is named, else of a block of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.corpora.europarl import LINES
from tests.corpora.reading import read

RAW = """<CHAPTER ID=1>
Resumption of nothing
<SPEAKER ID=1 NAME="The Chair">
We begin .
<P>
Who wants the floor ?
<SPEAKER ID=2 LANGUAGE="DE" NAME="Foo, on behalf of no group">
I do .
<CHAPTER ID="002">
Another title
<SPEAKER ID=3 NAME="The Chair">
Thank you .
<SPEAKER ID=4>
Somebody shouts .
"""


def sentences(first: int, count: int) -> list[str]:
    return [f"Sentence number {n} ." for n in range(first, first + count)]


def plain(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["europarl-v6.en", "src-train.en.txt"])
def test_a_plain_user_is_a_block_of_lines(tmp_path: Path, name: str) -> None:
    lines = sentences(0, 2 * LINES + 3)
    corpus = read(plain(tmp_path / name, lines))
    assert [r.text for r in corpus.records] == lines
    sizes = [sum(r.user == user for r in corpus.records) for user in corpus.users()]
    assert sizes == [LINES, LINES, 3]
    assert corpus.records[LINES].where == f"{tmp_path / name}:{LINES + 1}"
    assert corpus.of("heldout")


def test_blank_lines_move_no_later_block(tmp_path: Path) -> None:
    lines = sentences(0, 2 * LINES)
    blank = [*lines[:5], "", " ", *lines[7:]]
    whole, gaps = (
        {r.text: r.user for r in read(plain(tmp_path / f"{n}.en", text)).records}
        for n, text in (("a", lines), ("a", blank))
    )
    assert len(gaps) == 2 * LINES - 2
    assert gaps == {text: user for text, user in whole.items() if text in gaps}


def test_the_files_of_a_folder_are_splits(tmp_path: Path) -> None:
    plain(tmp_path / "src-train.en.txt", sentences(0, 45))
    plain(tmp_path / "src-test.en.txt", sentences(100, 25))
    (tmp_path / "SOURCE.txt").write_text("where it is from\n")
    corpus = read(tmp_path)
    assert [len(corpus.of(s)) for s in ("private", "heldout")] == [45, 25]
    assert [len(corpus.users(s)) for s in ("private", "heldout")] == [3, 2]


def test_a_marked_speaker_is_the_user(tmp_path: Path) -> None:
    path = tmp_path / "ep-00-01-01.txt"
    path.write_text("\n" + RAW)
    corpus = read(path)
    assert [(r.user, r.text) for r in corpus.records] == [
        ("The Chair", "We begin ."),
        ("The Chair", "Who wants the floor ?"),
        ("Foo, on behalf of no group", "I do ."),
        ("The Chair", "Thank you ."),
        ("ep-00-01-01-14", "Somebody shouts ."),
    ]
    assert [r.where for r in corpus.records][:2] == [f"{path}:5", f"{path}:7"]
    assert {r.name for r in corpus.records} == {None}  # a role, often, and not a full name


def test_a_speaker_is_one_user_everywhere(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"ep-{day}.txt").write_text(RAW)
    corpus = read(tmp_path)
    assert len(corpus.records) == 10
    assert len(corpus.users()) == 4  # the nameless ones are not known to be one


def test_other_texts_stay_what_they_were(tmp_path: Path) -> None:
    path = plain(tmp_path / "notes.txt", ["one", "more", "", "two <P>"])
    assert [r.text for r in read(path).records] == ["one\nmore", "two <P>"]


def test_the_english_side_is_read_from_the_hub(hub: Any) -> None:
    pairs: list[Any] = [{"translation": {"de": "Satz", "en": s}} for s in sentences(0, LINES + 2)]
    pairs[1]["translation"]["en"] = ""
    pairs[2]["translation"]["en"] = "two\nlines "
    hub({("europarl_bilingual", "de-en"): {"train": pairs}})
    corpus = read("hf:europarl_bilingual/de-en")
    assert len(corpus.records) == LINES + 1
    assert corpus.records[1].text == "two lines"
    assert [r.user for r in corpus.records].count("train-1") == LINES - 1
