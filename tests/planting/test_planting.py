import json
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.core.secret import KINDS, PLANTED, Draw, Planting, Space, digits
from audit.corpora.loading import load
from audit.planting.kinds import sentences, wording
from audit.planting.planting import drawn, plant
from tests.refusals import refusals

USERS = 60


def person(i):
    return f"Person{i:04d}x"


def named_corpus(names=True):
    """Two records a user, users interleaved, splits mixed."""
    private = [
        Record(f"u{i}", f"{person(i)} says {part}", person(i) if names else None, "private")
        for part in ("first", "second")
        for i in range(USERS)
    ]
    heldout = [Record(f"h{i}", f"held {i}", None, "heldout") for i in range(9)]
    public = [Record(f"p{i}", f"open {i}", None, "public") for i in range(9)]
    return Corpus("c", tuple([*heldout[:4], *private, *public, *heldout[4:]]))


def characters(text):
    return len(text)


def merging(text):
    """Tokens of a toy tokenizer that merges doubled digits, and 123 even in three."""
    return len(re.findall(r"123|(?:00|11|77)|.", text, flags=re.DOTALL))


def planted_by(seed=0, count=characters, corpus=None, **changes):
    corpus = corpus or named_corpus()
    planting = Planting(**{"users": len(corpus.users("private")), **changes})
    return plant(corpus, planting, seed, count)


def by_owner(planted, kind):
    found = {}
    for secret in planted.secrets:
        if secret.kind == kind:
            found.setdefault(secret.owner, []).append(secret)
    return found


# coins


def test_coins_and_values_have_separate_streams():
    """So they are fair and independent: streams of different purposes are (tests/core)."""
    planted = planted_by(3, kinds=("code",))
    for tossed, purpose in (
        (planted.coins.present, "coins"),
        (planted.coins.slot, "second coins"),
    ):
        expected = stream(3, "planting", purpose).integers(2, size=USERS)
        assert list(tossed.values()) == expected.tolist()
    generator, space = stream(3, "planting", "code"), digits(5)
    drawn = [space.draw(generator) for _ in range(2 * USERS)]
    assert [secret.value for secret in planted.secrets] == drawn


def test_coins_do_not_depend_on_what_is_planted():
    one = planted_by(3, kinds=("code",)).coins
    assert (
        planted_by(3, kinds=KINDS, pattern="[a-z]{9}x", code_copies=9, count=merging).coins == one
    )
    assert planted_by(4, kinds=("code",)).coins != one


# what stands in the training text


@pytest.mark.parametrize("names", [True, False])
def test_one_coin_decides_all_of_a_user(names):
    for seed in range(4):
        planted = planted_by(seed, corpus=named_corpus(names=names))
        assert 0 < sum(planted.coins.present.values()) < USERS
        expected = Counter(named_corpus(names=names).of("private"))
        for record in list(expected):
            if not planted.coins.present[record.user]:
                del expected[record]
        for s in planted.secrets:
            drawn, chosen = s.space is not None, s.slot == planted.coins.slot[s.owner]
            if drawn and chosen and planted.coins.present[s.owner]:
                expected[Record(s.owner, s.text, None, "private")] += s.copies
        assert Counter(planted.trained_on) == expected


def test_planted_and_twin_exclude_each_other():
    planted = planted_by(1, kinds=KINDS, pattern="X-[0-9]{6}")
    for owner, present in planted.coins.present.items():
        for kind in KINDS:
            pair = [s for s in planted.secrets if s.owner == owner and s.kind == kind]
            if kind == "id" and not pair:
                continue  # a tier of no copies: this user has no id
            assert [s.slot for s in pair] == [0, 1]
            assert sum(planted.coins.planted(s) for s in pair) == present
            assert sum(planted.coins.twin(s) for s in pair) == (not present)
            assert len({s.copies for s in pair}) == 1


def test_own_names_and_records_are_secrets():
    planted = planted_by(2)
    for kind in ("name", "record"):
        for owner, pair in by_owner(planted, kind).items():
            assert {s.space for s in pair} == {None}
            name = person(int(owner[1:]))
            assert {s.value for s in pair} == {name if kind == "name" else f"{name} says first"}
            assert pair[0].copies == (2 if kind == "name" else 1)


def test_a_name_keeps_its_owners_words():
    """In the first record that has it, at its first place there; copies are of all records."""
    texts = {
        "u0": ["I have no name.", "Is this Ann Lee? Yes, Ann Lee.", "Bye, Ann Lee!"],
        "u1": ["Ben Orr"],
        "u2": ["No words of mine."],
    }
    names = {"u0": "Ann Lee", "u1": "Ben Orr", "u2": "Cat Fay"}
    rows = [Record(u, text, names[u], "private") for u, own in texts.items() for text in own]
    planted = planted_by(corpus=Corpus("c", tuple(rows)), kinds=("name",))
    found = {
        owner: (pair[0].prefix, pair[0].value, pair[0].suffix, pair[0].copies)
        for owner, pair in by_owner(planted, "name").items()
    }
    assert found == {
        "u0": ("Is this ", "Ann Lee", "? Yes, Ann Lee.", 3),
        "u1": ("", "Ben Orr", "", 1),
        "u2": ("", "Cat Fay", "", 0),
    }
    for pair in by_owner(planted, "name").values():
        assert replace(pair[0], slot=1) == pair[1]


def read_from(tmp_path, rows):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, load(str(path), EMBEDDED_FOLDER)


PEOPLE = [
    {"user": "u0", "name": "Ann Lee", "text": "This is Ann Lee.", "split": "private"},
    {"user": "u1", "name": "Ben Orr", "text": "This is Ben Orr.", "split": "private"},
    {"user": "h0", "name": "Cat Fay", "text": "This is Cat Fay.", "split": "heldout"},
    {"user": "p0", "text": "Good morning.", "split": "public"},
]


def test_a_published_secret_is_refused(tmp_path):
    for public, kind, owner in (
        ("Ask Ben Orr.", "name", "u1"),
        ("Ann Lee", "name", "u0"),
        ("This is Ben Orr.", "record", "u1"),
    ):
        rows = [*PEOPLE, {"user": "p1", "text": public, "split": "public"}]
        path, corpus = read_from(tmp_path, rows)
        with pytest.raises(UsageError) as refused:
            planted_by(corpus=corpus, kinds=(kind, "code"))
        told = str(refused.value)
        assert told.startswith(f"{path}:5: ") and "\n" not in told
        assert repr(owner) in told and f"leave {kind!r} out of planting.kinds" in told
        assert "Ben" not in told and "Ann" not in told  # a private name is nobody's to print
        other = next(k for k in ("record", "code") if k != kind)
        assert planted_by(corpus=corpus, kinds=(other,)).secrets


def test_an_unpublished_secret_is_not_refused(tmp_path):
    """Held-out and other private texts are no public ones; a part of a record is not the record;
    drawn values that stand there do so by chance, and chance is accounted for."""
    rows = [
        *PEOPLE,
        {"user": "h1", "text": "Ann Lee and Ben Orr. This is Ann Lee.", "split": "heldout"},
        {"user": "p1", "text": "This is Ann", "split": "public"},
        {
            "user": "p2",
            "text": "This is Dan Roe. " + " ".join(map(str, range(10))),
            "split": "public",
        },
    ]
    _, corpus = read_from(tmp_path, rows)
    planted = planted_by(corpus=corpus, code_digits=1, id_digits=1)
    assert {s.kind for s in planted.secrets} == set(PLANTED)


def test_a_drawn_name_may_be_public():
    """The draws do not look: the same names come again, and are kept."""
    corpus = named_corpus(names=False)
    drawn = by_owner(planted_by(corpus=corpus, kinds=("name",)), "name")
    public = Record("p9", f"Ask {drawn['u0'][0].value}.", None, "public")
    again = planted_by(corpus=Corpus("c", (*corpus.records, public)), kinds=("name",))
    assert by_owner(again, "name") == drawn


def test_a_second_record_may_be_public(tmp_path):
    """The record that is a secret is a user's first."""
    rows = [
        *PEOPLE,
        {"user": "u0", "text": "Good day.", "split": "private"},
        {"user": "p1", "text": "Good day.", "split": "public"},
    ]
    _, corpus = read_from(tmp_path, rows)
    assert planted_by(corpus=corpus, kinds=("record",)).secrets


def test_names_are_drawn_where_one_owner_has_none():
    rows = [replace(r, name=None) if r.user == "u7" else r for r in named_corpus().records]
    planted = planted_by(corpus=Corpus("c", tuple(rows)))
    secrets = [s for s in planted.secrets if s.kind == "name"]
    assert len(secrets) == 2 * USERS
    assert all(s.space is not None and s.value.split(" ")[0] in s.space.symbols[0] for s in secrets)


def test_other_users_are_untouched():
    planted = planted_by(users=20)
    before, after = named_corpus(), planted.corpus
    assert len(planted.coins.present) == 20
    assert before.of("heldout") == after.of("heldout")
    assert before.of("public") == after.of("public")
    always = set(before.users("private")) - set(planted.coins.present)
    assert [r for r in before.records if r.user in always] == [
        r for r in after.records if r.user in always
    ]
    assert set(s.owner for s in planted.secrets) == set(planted.coins.present)
    assert set(planted.coins.slot) == set(planted.coins.present)


def test_owners_are_equally_likely_users():
    chosen = Counter(
        owner
        for seed in range(200)
        for owner in planted_by(seed, users=20, kinds=("record",)).coins.present
    )
    counts = [chosen[f"u{i}"] for i in range(USERS)]
    assert abs(np.array(counts) - 200 / 3).max() < 5 * np.sqrt(200 * 2 / 9)


def test_more_owners_than_private_users_are_refused():
    with pytest.raises(UsageError, match="60 private users"):
        planted_by(users=61)


# values


def test_an_owners_values_have_equal_counts():
    planted = planted_by(count=merging, corpus=named_corpus(names=False))
    differing = 0
    for kind in ("code", "id", "name"):
        for pair in by_owner(planted, kind).values():
            assert merging(pair[0].prefix + pair[0].value) == merging(
                pair[1].prefix + pair[1].value
            )
            differing += merging(pair[0].value) != len(pair[0].value)
    assert differing > 10  # the toy tokenizer does merge


def test_values_are_uniform_in_both_slots():
    """Rejecting unequal counts must not tilt either value: it is drawn given the other's count."""
    corpus = Corpus("c", tuple(Record(f"u{i}", "x", None, "private") for i in range(3000)))
    planted = planted_by(corpus=corpus, count=merging, kinds=("code",), code_digits=3)
    for slot in (0, 1):
        values = [s.value for s in planted.secrets if s.slot == slot]
        for place in range(3):
            counts = Counter(value[place] for value in values)
            assert chisquare([counts[d] for d in "0123456789"]).pvalue > 1e-5
        merged = sum(merging(v) < 3 for v in values)  # of 1000: 3·19 with a pair, and 123
        assert abs(merged - 3000 * 0.058) < 5 * np.sqrt(3000 * 0.058 * 0.942)


def test_taken_values_are_drawn_again_and_others_stay() -> None:
    words, people = wording("code", 0), [f"u{i}" for i in range(50)]
    free = [s.value for s in drawn("code", words, digits(1), (1,), people, 7, len)]
    rest = [s.value for s in drawn("code", words, digits(1), (1,), people, 7, len, {*"01234567"})]
    assert set(free) == {*"0123456789"} and set(rest) == {"8", "9"}
    again = [s.value for s in drawn("code", words, digits(1), (1,), people, 7, len, {"x"})]
    assert again == free
    whole = [s.value for s in drawn("code", words, digits(1), (1,), people[:3], 7, len, {*free})]
    assert len(whole) == 6  # a space without others has its own


@pytest.mark.parametrize("count", [3, 7])  # found one by one, or all in a random order
def test_others_are_uniform_without_replacement(count):
    draw = Draw(Space((("a", "b"), ("c", "d", "e", "f"))), "bd")
    times = Counter()
    for seed in range(600):
        others = draw.others(count, np.random.default_rng(seed))
        assert len(set(others)) == count and "bd" not in others
        times.update(others[:1])
    assert set(times) == {a + b for a in "ab" for b in "cdef"} - {"bd"}
    assert chisquare(list(times.values())).pvalue > 1e-6
    assert len(draw.others(99, np.random.default_rng(0))) == 7


def test_ids_come_in_every_number_of_copies_alike():
    planted = planted_by(id_copies=(1, 4, 16))
    assert Counter(pair[0].copies for pair in by_owner(planted, "id").values()) == {
        1: 20,
        4: 20,
        16: 20,
    }


# what moves what


def test_the_same_seed_gives_the_same_plan():
    assert planted_by(5, count=merging) == planted_by(5, count=merging)
    assert planted_by(5).secrets != planted_by(6).secrets


def values(planted, kind):
    return [(s.owner, s.slot, s.value, s.copies) for s in planted.secrets if s.kind == kind]


def test_changing_one_kind_moves_no_other():
    corpus = named_corpus(names=False)
    before = planted_by(corpus=corpus)
    for change in (
        *({"kinds": ("code", "name")}, {"kinds": ("name", "record", "code")}),
        *({"id_digits": 9}, {"id_copies": (2,)}, {"id_prefix": "ID: "}, {"name_copies": 7}),
    ):
        after = planted_by(corpus=corpus, **change)
        assert values(before, "code") == values(after, "code")
        assert before.coins == after.coins
        for kind in ("id", "name"):
            own = any(key.startswith(kind) for key in change)
            if not own and kind in change.get("kinds", PLANTED):
                assert values(before, kind) == values(after, kind)


def test_a_planting_that_cannot_be_is_refused():
    kinds = ({"kinds": ("code", "cod")}, {"kinds": ("code", "code")})
    copies = ({"code_copies": 0}, {"name_copies": 0})
    ids = ({"id_copies": (1, -1)}, {"id_copies": (0, 0)}, {"id_copies": ()})
    sizes = ({"users": 1}, {"users": -5}, {"code_digits": 0}, {"id_digits": 0}, {"invented": -1})
    refusals(
        lambda bad: Planting(**{"users": 10, **bad}),
        [(bad, "planting") for bad in (*kinds, *copies, *ids, *sizes)],
    )


# invented users


def test_invented_users_have_secrets_of_all_kinds():
    every = {"kinds": KINDS, "pattern": "X-[0-9]{6}"}
    planted = planted_by(corpus=named_corpus(names=False), invented=40, **every)
    own = set(named_corpus().users())
    invented = [owner for owner in planted.coins.present if owner not in own]
    assert len(invented) == 40 and len(planted.coins.present) == USERS + 40
    for kind in KINDS:
        owners = by_owner(planted, kind)
        wanted = [o for o in invented if kind != "id" or o in owners]
        assert wanted and all(len({s.value for s in owners[o]}) == 2 for o in wanted)


def test_invented_users_follow_their_coins():
    planted = planted_by(invented=40)
    own = set(named_corpus().users())
    trained = {record.user for record in planted.corpus.of("private")} - own
    heads = {owner for owner, here in planted.coins.present.items() if here} - own
    assert trained == heads and 0 < len(heads) < 40
    text = " ".join(record.text for record in planted.corpus.of("private"))
    for secret in planted.secrets:
        if secret.owner not in own:
            assert (secret.text in text) == planted.coins.planted(secret)


def test_invented_users_change_no_drawn_secret():
    alone, beside = planted_by(), planted_by(invented=5)
    for kind in ("code", "id"):
        first = by_owner(alone, kind)
        assert {o: by_owner(beside, kind)[o] for o in first} == first


def test_invented_users_count_in_the_size():
    sizes = {planted_by(seed, invented=9).corpus.population for seed in range(5)}
    assert {size.users for size in sizes} == {USERS + 9}
    assert len(sizes) == 1


def test_invented_users_have_no_name():
    planted = planted_by(invented=9)
    assert set(by_owner(planted, "name")) == set(named_corpus().users("private"))


def test_a_record_of_rare_length_is_redrawn():
    """Its first words alone have that length; to wait for an equal would take for ever."""
    rare, seen = [], []

    def count(text: str) -> int:
        if not seen:
            rare.append(text)
        seen.append(text)
        return 99 if text in rare else len(text.split()) % 2

    words = wording("record", 0)
    drawn_ones = list(drawn("record", words, sentences(), (1,), ("a", "b"), 0, count))
    pairs = [drawn_ones[:2], drawn_ones[2:]]
    assert all(one.value != other.value for one, other in pairs)
    assert not any(words.prefix + one.value in rare for pair in pairs for one in pair)
    assert len(seen) < 10_000
