"""Training files as trainers store them: masks, labels and marks that other tools write."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from audit.contract.toys import ALPHABET, CharacterTokenizer
from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, Tokens
from audit.core.secret import Coins, Secret
from audit.planting import coverage, training_rows
from audit.planting.training_rows import IGNORED, TokenRow
from tests.planting.test_training_file import Letters

TOKENIZER = CharacterTokenizer(ALPHABET)
IDS = [3, 1, 4, 1, 5, 9]
ALL = (True,) * 6
HALF, OTHER = [1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 0]


def read(**entry: Any) -> TokenRow:
    return training_rows.of_example({"input_ids": IDS, **entry})


@pytest.mark.parametrize(
    "entry, learned",
    [
        ({}, ALL),
        ({"labels": None}, ALL),
        ({"labels": IDS, "completion_mask": None}, ALL),
        ({"labels": [IGNORED, IGNORED, *IDS[2:]]}, (False, False, True, True, True, True)),
        ({"completion_mask": HALF, "assistant_masks": OTHER}, (False, True, True) + (False,) * 3),
        ({"completion_mask": [1] * 6, "assistant_masks": [0] * 6}, (False,) * 6),
        ({"labels": IDS, "loss_mask": HALF}, (True,) * 3 + (False,) * 3),
        ({"labels": [IGNORED] * 6}, (False,) * 6),
    ],
    ids=str,
)
def test_token_is_learned_if_every_mask_holds_it(
    entry: dict[str, Any], learned: tuple[bool, ...]
) -> None:
    assert read(**entry) == TokenRow(tuple(IDS), learned)


def test_padding_is_left_out_of_the_row() -> None:
    row = read(attention_mask=[0, 0, 1, 1, 1, 1], loss_mask=OTHER)
    assert row == TokenRow((4, 1, 5, 9), (True, True, True, False))


def test_labels_of_next_token_are_recognised() -> None:
    row = read(labels=[IGNORED, *IDS[2:], 0])
    assert row == TokenRow(tuple(IDS), (False, False, True, True, True, True), shifted=True)


def test_repeated_token_is_not_taken_for_a_shift() -> None:
    row = training_rows.of_example({"input_ids": [7, 7, 7], "labels": [7, 7, 7]})
    assert row == TokenRow((7, 7, 7), (True,) * 3)


@pytest.mark.parametrize("entry", [{"labels": IDS[1:]}, {"loss_mask": HALF[1:]}])
def test_mask_of_another_length_is_an_error(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read(**entry)


def rows(file: Path) -> list[TokenRow]:
    return list(training_rows.of_file(file, TOKENIZER, context=20))


def test_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path) -> None:
    line = json.dumps({"input_ids": IDS})
    (tmp_path / "rows.jsonl").write_text(line, encoding="utf-8-sig")
    assert rows(tmp_path / "rows.jsonl") == [TokenRow(tuple(IDS), ALL)]


def test_conversation_is_refused_by_its_form(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}]}))
    with pytest.raises(UsageError, match=r"chat\.jsonl:1: is a conversation"):
        rows(file)


CODES = [Secret("code", "My Code is #", value, ".", None, 1, value, 0) for value in "1234"]


@dataclass(frozen=True)
class Lowering:
    """A tokenizer that lowers letters and sets digits apart: a token a character."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in re.sub(r"(\d)", r" \1", text.lower())]

    def decode(self, tokens: Tokens) -> str:
        return "".join(map(chr, tokens))


@pytest.mark.parametrize("tokenizer", [Lowering(), Letters()], ids=["lowering", "faithful"])
@pytest.mark.parametrize(
    "written, people, removed, absent",
    [
        ("My Code is #{}. ", 4, False, False),
        ("My Code is #[CODE{}]. ", 0, True, False),
        ("My Code is [REMOVED{}]. ", 0, True, False),
        ("Your code is #{}. ", 0, False, True),
    ],
)
def test_words_and_values_are_told_apart(
    tokenizer: Tokenizer, written: str, people: int, removed: bool, absent: bool
) -> None:
    rows = training_rows.of_texts([written.format(s.value) for s in CODES], tokenizer, 99)
    heads = Coins({s.owner: True for s in CODES}, {s.owner: 0 for s in CODES})
    (found,) = coverage.by_kind(rows, CODES, heads, tokenizer)
    assert (found.people, found.removed, found.absent) == (people, removed, absent)


def test_copies_of_one_value_are_of_one_person() -> None:
    rows = training_rows.of_texts(["My Code is #1."] * 3 + ["My Code is #2."], Letters(), 99)
    many = [replace(s, copies=3) for s in CODES]
    heads = Coins({s.owner: True for s in CODES}, {s.owner: 0 for s in CODES})
    (found,) = coverage.by_kind(rows, many, heads, Letters())
    assert (found.trained, found.people, found.words) == (4, 2, 4)
