"""Text that several users hold, counted as by comparing every run of every pair."""

from __future__ import annotations

import re

import numpy as np
import pytest

from audit.core.corpus import Record
from audit.corpora.shared_text import RUN, shared_text

LONG = " ".join(f"word{i}" for i in range(20))


def record(user: str, text: str, split: str = "private") -> Record:
    return Record(user, text, split=split)


def test_quotes_and_forwards_of_others_are_counted_and_own_ones_are_not() -> None:
    quoted = "Yes.\n" + "\n".join(f"> {LONG[i : i + 40]}" for i in range(0, len(LONG), 40))
    quoted = "Yes.\n> " + LONG.replace(" word9", "\n> word9")
    found = shared_text(
        [
            record("a", LONG),
            record("b", quoted),
            record("c", f"See below.\n-- Forwarded message --\nFrom: a\n{LONG}"),
            record("d", "nothing of anybody " * 9),
            record("d", "nothing of anybody " * 9),
            record("e", LONG.upper(), "heldout"),
        ]
    )
    assert (found.of, found.records, found.quoted, found.forwarded) == (5, 3, 1, 1)
    assert (found.alike, found.users) == (0, 3)
    assert "3 of 5 private records" in found.sentence and "3 users" in found.sentence


def test_records_that_differ_in_digits_alone_are_alike() -> None:
    found = shared_text(
        [record("a", "Code 123, ok?"), record("b", "code 9: OK"), record("c", "no")]
    )
    assert (found.records, found.alike, found.users) == (0, 2, 2)
    assert not shared_text([record("a", "x y"), record("a", "x y")]).sentence


@pytest.mark.parametrize("seed", range(5))
def test_runs_are_those_of_a_plain_comparison(seed: int) -> None:
    draws = np.random.default_rng(seed)
    records = [
        record(f"u{draws.integers(4)}", " ".join(draws.choice([*"ab"], size=draws.integers(5, 26))))
        for _ in range(12)
    ]

    def runs(text: str) -> set[str]:
        words = re.findall(r"\w+", text)
        return {" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1)}

    own = [runs(one.text) for one in records]
    users = {
        run: {r.user for r, theirs in zip(records, own, strict=True) if run in theirs}
        for run in set().union(*own)
    }
    found = shared_text(records)
    assert found.records == sum(any(len(users[run]) > 1 for run in mine) for mine in own)
    whole = [len({r.user for r in records if r.text == one.text}) for one in records]
    assert found.users == max(*(len(u) for u in users.values()), *whole)
