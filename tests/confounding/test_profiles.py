"""What is read of texts: lengths, words, scripts, and the dates that are written in them."""

from __future__ import annotations

import numpy as np
import pytest

from audit.confounding import dates, lengths, profile, scripts, vocabulary


def test_lengths_are_shares_of_a_users_own_texts() -> None:
    found = lengths.profile([("a", "aaa"), ("aaa", "aaa", "aaaaa")])
    assert found.rows.tolist() == [[0.5, 1.0, 1.0], [0.0, pytest.approx(2 / 3), 1.0]]
    assert found.labels[1] == "texts of at most 3 characters"


def test_thresholds_are_limited() -> None:
    known, rows = profile.cumulative([list(range(1000)), [999.0]])
    assert len(known) == rows.shape[1] == 256
    assert (known[0], known[-1]) == (0.0, 999.0)
    assert rows[0, -1] == 1.0 and rows[1, -2] == 0.0


def test_words_that_two_users_share_are_columns() -> None:
    found = vocabulary.profile([("The cat, the CAT", "dog"), ("cat",), ("",)])
    assert found.rows.tolist() == [[0.4, pytest.approx(0.6)], [1.0, 0.0], [0.0, 0.0]]
    assert found.labels == ()
    bag = vocabulary.bag(found)
    assert np.allclose(bag.rows**2, found.rows)


def test_digits_are_counted_one_by_one() -> None:
    found = vocabulary.profile([("71",), ("17 1",), ("7",)])
    assert found.rows.tolist() == [pytest.approx(row) for row in (
        [1 / 3, 1 / 3, 1 / 3], [0.2, 0.6, 0.2], [1.0, 0.0, 0.0]
    )]  # fmt: skip


def test_signs_of_chinese_are_words() -> None:
    assert vocabulary.profile([("猫狗",), ("狗",)]).rows.tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_scripts_are_shares_of_characters() -> None:
    found = scripts.profile([("Aé 1ж",), ("。中",)])
    row = dict(zip(found.labels, found.rows[0].tolist(), strict=True))
    assert row == {
        "Latin capitals": 0.2, "Latin letters": 0.2, "blanks": 0.2, "digits": 0.2,
        "Cyrillic letters": 0.2, "CJK letters": 0.0, "punctuation marks": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("on 2021-04-30, and 2021-13-01", [(2021 + 3 / 12, True), (2021.0, True)]),
        ("30 April 2021; April 30th, 2021", [(2021 + 3 / 12, True)] * 2),
        ("the 3rd of May", [(5.0, False)]),
        ("Sept. 9 and march 3", [(9.0, False), (3.0, False)]),
        ("ſept. 9; 3 AUGUſT 1750", [(9.0, False), (1750 + 7 / 12, True)]),
        ("in March 1999", [(1999 + 2 / 12, True)]),
        ("they may march", []),
        (
            "the 1990s, 30.04.1985, 12/31/1999, 2021年",
            [(y, True) for y in (1990, 1985, 1999, 2021)],
        ),
        ("order 120213 or A1999 or 19991 or 843-58572-2150", []),
        ("1699 1700 2100 2101", [(1700.0, True), (2100.0, True)]),
    ],
)
def test_dates_are_read_as_they_are_written(text: str, found: list[tuple[float, bool]]) -> None:
    assert list(dates.dates(text)) == [(pytest.approx(at), known) for at, known in found]


def test_users_without_dates_count_as_such() -> None:
    found = dates.profile([("in 1990 or May 1991",), ("",), ("3 May",)])
    assert found.labels == ["dates up to 1990", "dates up to 1991-05", "days of months up to May"]
    assert found.rows.tolist() == [[0.5, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert dates.profile([("",), ("none",)]).rows.shape == (2, 0)
