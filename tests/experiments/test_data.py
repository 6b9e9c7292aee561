"""The corpora of larger scales: who is taken, as what, and how much of each."""

from __future__ import annotations

import dataclasses
from collections import Counter

from audit.core.corpus import Corpus, Record
from experiments.data import ALL, Size, rows, split_of

PEOPLE = [f"u{i}" for i in range(10)]
CORPUS = Corpus(
    "some",
    tuple(
        Record(user, f"{user} says this", split=split)  # three words
        for split, users in (("private", PEOPLE[:7]), ("heldout", PEOPLE[7:]))
        for user in users
        for _ in range(4)
    ),
)


def test_users_are_private_public_or_held_out_and_no_two_of_them() -> None:
    assert Counter(split_of(CORPUS, Size("", 4, 2, 2)).values()) == {
        "private": 4,
        "heldout": 2,
        "public": 2,
    }
    every = split_of(CORPUS, Size("", ALL, ALL, 2))
    assert Counter(every.values()) == {"private": 5, "heldout": 3, "public": 2}
    assert all((split == "heldout") == (user in PEOPLE[7:]) for user, split in every.items())


def test_users_that_come_first_are_left_out() -> None:
    first, others = Size("", 1, 2, 1), Size("", 1, 1, 1, after=2)
    one, other = split_of(CORPUS, first), split_of(CORPUS, others)
    assert len(one) == 4 and len(other) == 3 and not set(one) & set(other)


def test_records_of_a_user_are_taken_until_they_have_so_many_words() -> None:
    for words, records in ((1, 1), (3, 1), (4, 2), (12, 4), (ALL, 4)):
        taken = Counter(row["user"] for row in rows(CORPUS, Size("", ALL, ALL, 0, words)))
        assert taken == dict.fromkeys(PEOPLE, records)


def test_public_records_that_name_a_private_user_are_left_out_where_names_are_sought() -> None:
    """Two of ten are public, seven private; each text names the next person."""
    records = tuple(
        Record(f"u{i}", f"I know Person{(i + 1) % 10}.", split="private", name=f"Person{i}.")
        for i in range(10)
    )
    corpus, size = Corpus("some", records), Size("", 7, 0, 2)
    split, every = split_of(corpus, size), list(rows(corpus, size))
    private = {f"Person{user[1:]}." for user, kind in split.items() if kind == "private"}
    naming = [r for r in every if r["split"] == "public" and r["text"].split()[-1] in private]
    assert len(naming) > 0
    left = list(rows(corpus, dataclasses.replace(size, apart=True)))
    assert left == [row for row in every if row not in naming]


def test_public_records_that_hold_a_private_one_are_left_out_likewise() -> None:
    records = tuple(
        Record(f"u{i}", text, split="private")
        for i in range(9)
        for text in (f"only {i}", "No, all  rise now, please, and be quiet."[4 * (i % 2) :])
    )
    every = list(rows(Corpus("some", records), Size("", 7, 0, 2, apart=True)))
    public = [row["text"] for row in every if row["split"] == "public"]
    assert len(public) == 2 and all(text.startswith("only") for text in public)
    assert len([row for row in every if row["split"] == "private"]) == 14
