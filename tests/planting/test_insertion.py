"""What `audit plant` adds: fair coins, uniform values and places, and nothing taken away."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.secret import KINDS
from audit.planting.insertion import Canaries, draws_of, fresh_seed, plant_into
from audit.planting.planting import invented_users
from audit.planting.templates import template_of
from tests.refusals import refusals

CODES = Canaries(kinds=("code",), count=20, repetitions=(1,))
SURE = 1e-6  # a test that fails by chance fails once in so many versions


def corpus(size: int = 10, split: str = "") -> Corpus:
    return Corpus("own", tuple(Record(f"u{i}", f"text {i}", split=split) for i in range(size)))


def added(whole: Corpus, before: Corpus) -> list[Record]:
    known = {record.text for record in before.records}
    return [record for record in whole.records if record.text not in known]


def even(counts: list[int]) -> bool:
    """Whether such counts come of equally likely cases."""
    return bool(chisquare(counts).pvalue > SURE)


def test_sentences_are_words_drawn_one_after_the_other() -> None:
    _, manifest = plant_into(corpus(), Canaries(kinds=("record",), count=400), 0)
    sentences = [s.value.split(" ") for s in manifest.secrets]
    assert {len(words) for words in sentences} == {12}
    space = manifest.secrets[0].space
    assert space is not None and space.size == len(space.symbols[0]) ** 12
    counts = Counter(word for words in sentences for word in words)
    often = [counts.get(word, 0) for word in space.symbols[0]]
    assert sum(often) == 400 * 2 * 12 and even(often)


def canaries_of(*kinds: str, count: int) -> Canaries:
    return Canaries(kinds, count, pattern=r"EMP-\d{6}" if "pattern" in kinds else "")


@pytest.mark.parametrize("kind", KINDS)
def test_slots_differ_in_the_value_alone(kind: str) -> None:
    _, manifest = plant_into(corpus(), canaries_of(kind, count=50), 1)
    first, second = manifest.secrets[::2], manifest.secrets[1::2]
    for one, other in zip(first, second, strict=True):
        assert (one.slot, other.slot) == (0, 1)
        assert len(one.text) == len(other.text)
        for same in ("kind", "owner", "prefix", "suffix", "space", "copies"):
            assert getattr(one, same) == getattr(other, same)
    assert sum(s.value == t.value for s, t in zip(first, second, strict=True)) < 3


texts = st.lists(st.text(min_size=1, max_size=20), max_size=15)
kinds = st.lists(st.sampled_from(("code", "id")), min_size=1, unique=True).map(tuple)
tiers = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


@given(texts, kinds, st.integers(2, 8), tiers, st.integers(0, 2**63 - 1))
def test_records_stay_and_every_copy_is_one(
    texts: list[str], kinds: tuple[str, ...], count: int, tiers: tuple[int, ...], seed: int
) -> None:
    before = Corpus("own", tuple(Record(f"u{i}", text) for i, text in enumerate(texts)))
    whole, manifest = plant_into(before, Canaries(kinds, count, tiers), seed)
    owners = set(manifest.coins.present)
    assert not owners & set(before.users())
    assert tuple(r for r in whole.records if r.user not in owners) == before.records
    planted = [s for s in manifest.secrets if manifest.coins.planted(s)]
    expected = Counter({(s.owner, s.text): s.copies for s in planted})
    own = {(s.owner, s.prefix): len(s.text) for s in planted}
    found = Counter[tuple[str, str]]()
    for record in (r for r in whole.records if r.user in owners):
        length = next(
            n for (o, p), n in own.items() if o == record.user and record.text.startswith(p)
        )
        assert re.fullmatch(r"( [a-z]+)+[.]", record.text[length:])  # words of its own
        found[record.user, record.text[:length]] += 1
    assert found == expected
    assert len(owners) == count and len(manifest.secrets) == 2 * count * len(kinds)
    copies = {s.owner: s.copies for s in manifest.secrets}
    assert [copies[owner] for owner in manifest.coins.present] == [
        tiers[i % len(tiers)] for i in range(count)
    ]


def test_places_are_uniform() -> None:
    one = Canaries(kinds=("code",), count=2, repetitions=(1,))
    places: Counter[int] = Counter()
    for seed in range(600):
        whole, _ = plant_into(corpus(5), one, seed)
        found = [i for i, record in enumerate(whole.records) if "code" in record.text]
        if len(found) == 1:
            places[found[0]] += 1
    assert set(places) == set(range(6)) and even([*places.values()])
    alone = sum(places.values())  # one of two coins, in half of the seeds
    assert even([alone, 600 - alone])


def test_which_copy_stands_where_is_drawn_too() -> None:
    first: Counter[str] = Counter()
    for seed in range(300):
        whole, manifest = plant_into(corpus(1), Canaries(("code",), 2, (1,)), seed)
        if all(manifest.coins.present.values()):
            owners = [r.user for r in whole.records if r.user in manifest.coins.present]
            first["earlier" if owners[0] == next(iter(manifest.coins.present)) else "later"] += 1
    assert even([first["earlier"], first["later"]])


def test_invented_users_are_like_no_others() -> None:
    _, manifest = plant_into(corpus(), CODES, 3)
    taken = Corpus("own", tuple(Record(owner, "text") for owner in manifest.coins.present))
    draws = draws_of(3, corpus(), CODES)
    assert invented_users(corpus(), 20, draws) == tuple(manifest.coins.present)
    again = invented_users(taken, 20, draws)  # the same draws, all taken
    assert len(again) == 20 and not set(again) & set(manifest.coins.present)


def test_a_corpus_that_holds_a_canary_is_refused() -> None:
    """Also one whose coin did not come up: its silence would be no null."""
    canaries = Canaries(
        ("pattern",),
        50,
        (1,),
        templates={"pattern": template_of("PIN {value}.", "here")},
        pattern="[0-9]{3}",
    )
    refused = 0
    for value in (f"{i:03}" for i in range(100)):
        holding = Record("u", f"PIN {value}.", where="own.jsonl:11")
        try:
            _, manifest = plant_into(Corpus("own", (*corpus().records, holding)), canaries, 3)
        except UsageError as error:
            assert str(error).startswith("own.jsonl:11: holds a canary already")
            refused += 1
        else:
            assert value not in {secret.value for secret in manifest.secrets}
    assert refused  # of 100 values of a thousand, each with 100 canaries


@pytest.mark.parametrize("change", ["a text", "a user", "kinds", "count", "copies"])
def test_draws_differ_with_all_they_depend_on(change: str) -> None:
    """A given seed makes the same draws for no other corpus, so that contact is with this one."""
    kinds = ("code", "id", "name", "record")
    before, canaries = corpus(), Canaries(kinds, count=40, repetitions=(1,))
    records = before.records
    later = {
        "a text": Corpus("own", (*records, Record("u9", "text 10"))),
        "a user": Corpus("own", (*records[:-1], replace(records[-1], user="u10"))),
    }
    asked = {
        "kinds": Canaries(kinds[:3], 40, (1,)),
        "count": Canaries(kinds, 41, (1,)),
        "copies": Canaries(kinds, 40, (1, 1)),
    }
    one = plant_into(before, canaries, 7)[1]
    other = plant_into(later.get(change, before), asked.get(change, canaries), 7)[1]
    alone = plant_into(replace(before, name="renamed"), canaries, 7)[1]
    assert alone.secrets == one.secrets and alone.coins == one.coins  # a name changes no text
    for mine, its in ((one, other), (other, one)):
        owners = mine.coins.present
        assert not set(owners) & set(its.coins.present)
        assert mine.draws_are_its_own and mine.source is not None
    for name in ("prefix", "value"):
        drawn = [{(s.kind, getattr(s, name)) for s in m.secrets if s.kind != "record"}
                 for m in (one, other)]  # fmt: skip
        assert len(drawn[0] & drawn[1]) < 3  # two of 100,000 codes are equal by chance
    coins = [[(c.present[o], c.slot[o]) for o in c.present] for c in (one.coins, other.coins)]
    assert coins[0] != coins[1]


@pytest.mark.parametrize(("split", "given"), [("", ""), ("private", "private")])
def test_planted_records_are_in_the_private_split(split: str, given: str) -> None:
    before = Corpus("own", (*corpus(4, split).records, Record("t", "held out", split="heldout")))
    before = before if split else corpus(4)
    whole, _ = plant_into(before, CODES, 0)
    assert {record.split for record in added(whole, before)} == {given}


def test_no_coin_moves_the_public_size() -> None:
    mixed = Corpus("own", (*corpus(10, "private").records, Record("t", "x", split="heldout")))
    canaries = Canaries(kinds=("code", "id"), count=5, repetitions=(1, 4))
    sizes = {
        (m.population.users, m.population.records)
        for m in (plant_into(mixed, canaries, seed)[1] for seed in range(8))
    }
    assert sizes == {(15, 10 + 2 * (1 + 4 + 1 + 4 + 1))}  # of every user, as if all were there


def test_a_seed_decides_all_but_the_key() -> None:
    (one, known), (other, again) = (plant_into(corpus(), Canaries(count=5), 4) for _ in range(2))
    assert one == other and known.secrets == again.secrets and known.coins == again.coins
    assert known.key != again.key and known.digest != again.digest
    _, next_one = plant_into(corpus(), Canaries(count=5), 5)
    values = [{s.value for s in m.secrets} for m in (known, next_one)]
    assert not values[0] & values[1] and known.coins != next_one.coins
    assert len({fresh_seed() for _ in range(20)}) == 20


def test_a_coin_of_one_record_says_so() -> None:
    def unit(kinds: tuple[str, ...], tiers: tuple[int, ...]) -> str:
        return plant_into(corpus(), Canaries(kinds, 4, tiers), 0)[1].unit

    assert unit(("record",), (1,)) == "user of one record"
    assert unit(("code",), (1,)) == "user of one record"
    assert unit(("record", "code"), (1,)) == "user"  # two records come and go together
    assert unit(("record",), (1, 4)) == "user"


def test_impossible_canaries_are_refused() -> None:
    refusals(
        lambda bad: Canaries(**bad),
        [
            ({"kinds": ("pin",)}, "--kind pin: the kinds are code, id, name, record, email"),
            ({"kinds": ()}, "the kinds are"),
            ({"kinds": ("code", "code")}, "give each kind once"),
            ({"count": 1}, "--count is 1"),
            ({"count": -5}, "--count is -5"),
            ({"repetitions": ()}, "--repetitions"),
            ({"repetitions": (4, 0)}, "must be at least 1"),
        ],
    )
