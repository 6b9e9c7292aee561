"""What a trainer's file may look like, and what it says of one canary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.secret import Coins, Secret
from audit.corpora import writing
from audit.planting import coverage, training_rows
from audit.planting.training_rows import IGNORED

CODE = Secret("code", "My code is #", "40917", ".", None, 1, "u", 0)
TEXT = CODE.text
IDS = [ord(c) for c in TEXT]
WHOLE, NONE = [1] * len(IDS), [0] * len(IDS)


class Letters:
    """A token a character."""

    start, stop = 2, 3

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token) for token in tokens if token > 3)


READ: list[tuple[dict[str, Any], str]] = [
    ({"text": TEXT}, "trained"),
    ({"text": TEXT, "split": "private"}, "trained"),
    ({"text": TEXT, "split": "Train"}, "trained"),
    ({"text": TEXT, "split": "validation"}, "missing"),
    ({"text": TEXT, "split": "other"}, "missing"),
    ({"text": TEXT, "split": "heldout"}, "missing"),
    ({"input_ids": IDS}, "trained"),
    ({"input_ids": IDS, "text": TEXT, "labels": [IGNORED] * len(IDS)}, "masked"),
    ({"input_ids": IDS[:4], "text": TEXT}, "missing"),
    ({"input_ids": IDS, "labels": [*IDS[1:], 3]}, "trained"),  # shifted
    ({"input_ids": IDS, "labels": [-1] * len(IDS)}, "masked"),
    ({"input_ids": IDS, "completion_mask": NONE}, "masked"),
    ({"input_ids": IDS, "assistant_masks": NONE}, "masked"),
    ({"input_ids": IDS, "loss_mask": WHOLE}, "trained"),
    ({"input_ids": IDS, "labels": IDS, "loss_mask": NONE}, "masked"),
    ({"text": "My code is #409177."}, "missing"),
    ({"text": "My code is #40917th"}, "missing"),
    ({"text": "My code is #40917 and"}, "trained"),
]


def test_a_row_is_read_as_it_is_meant(tmp_path: Path) -> None:
    path, coins = tmp_path / "training.jsonl", Coins({"u": True}, {"u": 0})
    for entry, became in READ:
        path.write_text(json.dumps(entry) + "\n")
        rows = list(training_rows.of_file(path, Letters(), 256))
        (reach,) = coverage.by_kind(rows, [CODE], coins, Letters())
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
    rows = training_rows.of_texts([written, "My code is"], Letters(), 256)
    (found,) = coverage.by_kind(rows, [CODE], Coins({"u": True}, {"u": 0}), Letters())
    assert found.sentence == f"Of 1 planted code copies 0 were trained on ({said})"
    assert found.removed == ("missing" in said)


def test_plain_text_is_read_as_it_was_planted(tmp_path: Path) -> None:
    records = [Record("u", TEXT), Record("v", "Another one.")]
    writing.write(records, tmp_path / "planted.txt")
    (tmp_path / "planted.txt").rename(tmp_path / "P.TXT")
    rows = list(training_rows.of_file(tmp_path / "P.TXT", Letters(), 256))
    assert [Letters().decode(row.tokens) for row in rows] == [one.text for one in records]
    (tmp_path / "P.TXT").write_text("one\ntwo\n")
    with pytest.raises(UsageError, match="no blank lines between its records; give it as JSONL"):
        list(training_rows.of_file(tmp_path / "P.TXT", Letters(), 256))
