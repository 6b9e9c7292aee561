"""Training files as trainers store them: what a row says of one canary, and of each token."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from audit.contract.toys import ALPHABET, CharacterTokenizer
from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.predictor import Tokenizer, Tokens
from audit.core.secret import Coins, Secret
from audit.corpora import writing
from audit.planting import coverage, training_rows
from audit.planting.coverage import Coverage
from audit.planting.training_rows import IGNORED, TokenRow

CODE = Secret("code", "My code is #", "40917", ".", None, 1, "u", 0)
CODE_IDS = [ord(c) for c in CODE.text]


class Letters:
    """A token a character."""

    start, stop = 2, 3

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token) for token in tokens if token > 3)


def covered(
    rows: Any, secrets: Sequence[Secret] = (CODE,), tokenizer: Tokenizer | None = None
) -> Coverage:
    """The coverage of the one kind of these secrets, all planted."""
    owners = [secret.owner for secret in secrets]
    heads = Coins(dict.fromkeys(owners, True), dict.fromkeys(owners, 0))
    (found,) = coverage.by_kind(rows, secrets, heads, tokenizer or Letters())
    return found


READ: list[tuple[dict[str, Any], str]] = [
    ({"text": CODE.text}, "trained"),
    ({"text": CODE.text, "labels": "whatever"}, "trained"),
    ({"text": CODE.text, "split": "private"}, "trained"),
    ({"text": CODE.text, "split": "Train"}, "trained"),
    ({"text": CODE.text, "split": "validation"}, "missing"),
    ({"text": CODE.text, "split": "other"}, "missing"),
    ({"text": CODE.text, "split": "heldout"}, "missing"),
    ({"input_ids": CODE_IDS}, "trained"),
    ({"input_ids": CODE_IDS, "text": CODE.text, "labels": [IGNORED] * len(CODE_IDS)}, "masked"),
    ({"input_ids": CODE_IDS[:4], "text": CODE.text}, "missing"),
    ({"input_ids": CODE_IDS, "labels": [*CODE_IDS[1:], 3]}, "trained"),  # shifted
    ({"text": "My code is #409177."}, "missing"),
    ({"text": "My code is #40917th"}, "missing"),
    ({"text": "My code is #40917 and"}, "trained"),
    ({"input_ids": CODE_IDS, "attention_mask": [0] * len(CODE_IDS)}, "missing"),
]


def test_a_row_is_read_as_it_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "training.jsonl"
    for entry, became in READ:
        path.write_text("\n" + json.dumps(entry) + "\n")
        reach = covered(training_rows.of_file(path, Letters(), 256))
        found = {n: getattr(reach, n) for n in ("trained", "masked", "cut", "missing")}
        assert {n: count for n, count in found.items() if count} == {became: 1}, entry


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("My code is #4 0 9 1 7.", "1 in another form"),
        ("My code is #40,917.", "1 in another form"),
        ("My code is: 40917.", "1 in another form"),
        ("My code is #71904.", "1 missing"),
        ("My code is #[CODE].", "1 missing"),
        ("My code is #409175.", "1 missing"),  # another code
        ("My code is: 409175.", "1 missing"),
        ("My code is #409175, my code is 4-0917.", "1 in another form"),
    ],
)
def test_a_value_in_another_form_is_not_removed(written: str, said: str) -> None:
    found = covered(training_rows.of_texts([written, "My code is"], Letters(), 256))
    assert found.sentence == f"Of 1 planted code copies 0 were trained on ({said})"
    assert found.removed == ("missing" in said)


def test_plain_text_is_read_as_it_was_planted(tmp_path: Path) -> None:
    records = [Record("u", CODE.text), Record("v", "Another one.")]
    writing.write(records, tmp_path / "planted.txt")
    (tmp_path / "planted.txt").rename(tmp_path / "P.TXT")
    rows = list(training_rows.of_file(tmp_path / "P.TXT", Letters(), 256))
    assert [Letters().decode(row.tokens) for row in rows] == [one.text for one in records]
    (tmp_path / "P.TXT").write_text("one\ntwo\n")
    with pytest.raises(UsageError, match="no blank lines between its records; give it as JSONL"):
        list(training_rows.of_file(tmp_path / "P.TXT", Letters(), 256))


# --- tokens

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
    found = covered(rows, CODES, tokenizer)
    assert (found.people, found.removed, found.absent) == (people, removed, absent)


def test_copies_of_one_value_are_of_one_person() -> None:
    rows = training_rows.of_texts(["My Code is #1."] * 3 + ["My Code is #2."], Letters(), 99)
    many = [replace(s, copies=3) for s in CODES]
    found = covered(rows, many)
    assert (found.trained, found.people, found.words) == (4, 2, 4)
