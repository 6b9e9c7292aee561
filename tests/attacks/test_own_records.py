"""Own records against sessions that go on with the texts they know, and with nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from attacks.own_records import OwnRecords
from attacks.texts.own_runs import Prompt
from attacks.texts.own_values import named
from attacks.texts.standing import users_of, whole_words, words_of
from audit.contract.toys import CharacterTokenizer
from audit.core.attack import Knowledge
from audit.core.corpus import Record
from audit.core.evidence import Exhibits, Likelihoods, Successes
from audit.core.predictor import Access, Answer
from audit.core.secret import Coins, Secret
from audit.findings import Case, measurements_of

ALPHABET = "^ >\nabcdefghijklmnopqrstuvwxyz0123456789"
TOKENIZER = CharacterTokenizer(ALPHABET)
ATTACK = OwnRecords(k=20, prefix=20, records=2, samples=2, length=30)
RARE, SURE = -4.0, -0.01  # nats of a token


@dataclass
class Knowing:
    """A session that goes on with the texts it knows, and writes blanks after all others."""

    known: Collection[str]
    remaining: int | None = None
    readable: Access = Access.DISTRIBUTION
    access: Access = Access.DISTRIBUTION
    max_length: int = 200
    tokenizer: Any = TOKENIZER

    def _next(self, head: Sequence[int], length: int) -> str:
        before = TOKENIZER.decode(head[1:])
        text = next((text for text in self.known if text.startswith(before)), before)
        return text[len(before) : len(before) + length].ljust(length)

    def generate(self, prompts: Sequence[Sequence[int]], length: int) -> list[Answer]:
        texts = (TOKENIZER.encode(self._next(head, length)) for head in prompts)
        nothing = np.full(length, np.nan)
        return [Answer(tuple(text), nothing, nothing > 0, length) for text in texts]

    def score(
        self, prefixes: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
    ) -> list[Answer]:
        answers = []
        for head, tail in zip(prefixes, continuations, strict=True):
            due = TOKENIZER.encode(self._next(head, len(tail)))
            right = np.array([a == b for a, b in zip(due, tail, strict=True)])
            answers.append(Answer(tuple(tail), np.where(right, SURE, RARE), right, len(tail)))
        return answers


def text(user: str, number: int, draws: np.random.Generator, words: int = 16) -> str:
    """Words that hardly anybody else writes."""
    letters = "".join(draws.choice([*ALPHABET[4:30]], size=4 * words))
    return " ".join([user, f"{number}", *(letters[i : i + 4] for i in range(0, 4 * words, 4))])


def mailbox(users: int, seed: int = 0) -> dict[str, tuple[str, ...]]:
    draws = np.random.default_rng(seed)
    names = [f"user{i:03}" for i in range(users)]
    return {
        name: tuple(text(name, j, draws) for j in range(1 + i % 3)) for i, name in enumerate(names)
    }


def secrets(texts: Mapping[str, tuple[str, ...]], owners: Collection[str]) -> tuple[Secret, ...]:
    return tuple(
        Secret(
            "own", "", "\n\n".join(texts[user]), "", None, len(texts[user]), user, slot, texts[user]
        )
        for user in owners
        for slot in (0, 1)
    )


def corpus(texts: Mapping[str, tuple[str, ...]], *more: Record) -> tuple[Record, ...]:
    own = (Record(user, one, split="private") for user, some in texts.items() for one in some)
    return (*own, *more)


def knowing(records: Sequence[Record], public: Any = None) -> Knowledge:
    return Knowledge(public, (), (), (), np.random.default_rng(0), corpus=tuple(records))


def attacked(
    model: Any, asked: Sequence[Secret], knows: Knowledge, attack: OwnRecords = ATTACK
) -> dict[str, Any]:
    named = {}
    for one in attack.run(model, asked, knows):
        name = one.metric if isinstance(one, Successes) else type(one).__name__
        named[name] = one
    return named


def test_memorised_users_are_hit_and_users_set_aside_are_not() -> None:
    texts = mailbox(60)
    heads = [*texts][::2]
    model = Knowing([one for user in heads for one in texts[user]])
    found = attacked(model, secrets(texts, texts), knowing(corpus(texts)))
    for metric in ("own_sampled", "own_greedy"):
        won = dict(zip([s.owner for s in secrets(texts, texts)], found[metric].won, strict=True))
        assert all(won[user] == 1 for user in heads)
        assert not any(won[user] for user in texts if user not in heads)
    assert found["own_greedy"].access == Access.SCORE
    assert found["own_sampled"].access == Access.GENERATE
    likely = found["Likelihoods"]
    assert isinstance(likely, Likelihoods)
    assert set(likely.log_probs[likely.log_probs > -50].round(6)) == {SURE * 20}
    assert (likely.log_probs > -50).sum() == 2 * len(heads)


def test_what_others_wrote_is_no_hit_however_it_is_quoted() -> None:
    """A user's only long text is quoted by another, in lines that begin with a sign."""
    texts = mailbox(6)
    user, long = "user000", mailbox(6)["user000"][0]
    quoted = "\n".join(f"> {long[i : i + 25]}" for i in range(0, len(long), 25))
    records = corpus(texts, Record("user005", quoted, split="private"))
    asked = secrets(texts, [user])
    model = Knowing(texts[user])
    assert attacked(model, asked, knowing(corpus(texts)))["own_greedy"].won.tolist() == [1, 1]
    shared = attacked(model, asked, knowing(records))
    assert np.isnan(shared["own_greedy"].won).all()  # nothing of this user's own can be asked for


def test_users_without_own_text_are_not_measured_whatever_the_coin() -> None:
    texts = {"user000": ("short text",), **mailbox(4, seed=2)}
    texts["user000"] = ("short text",)
    asked = secrets(texts, texts)
    found = attacked(Knowing(()), asked, knowing(corpus(texts)))
    missing = {s.owner for s, won in zip(asked, found["own_greedy"].won, strict=True) if won != won}
    assert missing == {"user000"}


def test_marked_values_come_up_after_prompts_without_them() -> None:
    """Of four people whose text is known: an own code, one in the prompt, a shared one, none."""
    draws = np.random.default_rng(4)
    begun = {name: text(name, 0, draws, 5) for name in ("ann", "ben", "cat", "dan", "eve")}
    codes = {"ann": "730265", "ben": "114477", "cat": "555555", "eve": "908070"}
    texts = {
        name: (f"{one} code {codes.get(name, 'none')} and so it goes on",)
        for name, one in begun.items()
    }
    texts["ben"] = (f"114477 {texts['ben'][0]}",)
    records = [
        Record(
            name, one, split="private", private=tuple(m.span() for m in re.finditer(r"\d{3,}", one))
        )
        for name, (one,) in texts.items()
    ]
    records.append(Record("fay", "mine is 555555 too", split="private"))
    known = Knowing([texts[name][0] for name in ("ann", "ben", "cat", "dan")])
    attack = replace(ATTACK, prefix=10, length=60)
    asked = secrets(texts, texts)
    found = attacked(known, asked, knowing(records), attack)["own_values"]
    won = dict(zip([s.owner for s in asked], found.won, strict=True))
    assert (won["ann"], won["ben"], won["eve"]) == (1, 0, 0)
    assert np.isnan([won["cat"], won["dan"]]).all()


@pytest.mark.parametrize(
    ("given", "written", "found"),
    [
        ("my code:", "é AB-77 10.", 1),
        ("my code:", "ａｂ-７７\n10", 1),
        ("番号は", "AB-77-10です", 1),
        ("my ab 77 10:", "AB-77 10", 0),  # the prompt has it, in another form
        ("my code:", "AB-77 101", 0),
    ],
)
def test_value_is_found_in_any_case_width_and_line(given: str, written: str, found: int) -> None:
    tokenizer = CharacterTokenizer("^>" + "".join(dict.fromkeys(given + written)))
    prompt = Prompt("ann", (0, *tokenizer.encode(given)), ())
    answers = [(prompt, tokenizer.encode(written))]
    assert len(named({"ann": {"AB-77 10"}}, answers, tokenizer)) == found


def test_budget_leaves_whole_users_out() -> None:
    texts = mailbox(9)
    asked = secrets(texts, texts)
    model = Knowing([one for some in texts.values() for one in some], remaining=600)
    found = attacked(model, asked, knowing(corpus(texts)))
    won = {s.owner: w for s, w in zip(asked, found["own_sampled"].won, strict=True)}
    known = [user for user, w in won.items() if w == w]
    assert 0 < len(known) < 9 and known == [*texts][: len(known)]


def exhibits(model: Knowing, base: Any, *more: Record, users: int = 8) -> Exhibits:
    """Of users without coins; the first two have coins."""
    texts = mailbox(users)
    asked = secrets(texts, ["user000", "user001"])
    found = attacked(model, asked, knowing(corpus(texts, *more), base))["Exhibits"]
    assert isinstance(found, Exhibits)
    return found


def test_exhibit_is_what_the_base_does_not_write() -> None:
    texts = mailbox(8)
    model = Knowing([one for some in texts.values() for one in some])
    found = exhibits(model, Knowing(()))
    assert found.asked == 6 and len(found.log_probs) == 6 and set(found.users) == {1}
    prompts = sum(min(2, len(some)) for user, some in texts.items() if user > "user001")
    assert found.tried == prompts * (2 * (30 - 20 + 1) + 1)
    (one,) = measurements_of([found], _case())
    assert one.p_value is None and one.exhibit is not None and one.exhibit.nats is not None
    assert one.exhibit.nats < -40 and one.exhibit.unwritten == 6 and (one.k, one.n) == (6, 6)
    knows = exhibits(model, model)
    (written,) = measurements_of([knows], _case())
    assert written.exhibit is not None and written.exhibit.unwritten == 0
    (unknown,) = measurements_of([exhibits(model, None)], _case())
    assert unknown.exhibit is not None and unknown.exhibit.nats is None and unknown.k == 6


def _case() -> Case:
    return Case("own_records", (), Coins({}, {}), 0.0, 0, Access.GENERATE)


def test_form_that_everybody_fills_in_is_no_exhibit() -> None:
    """All but one word of each record stands with others: the base's figure counts that word."""
    form = "dear all the parcel with the number {} is on the way to your door today at noon"
    users = {f"user{i:03}": (form.format(f"{'abcdefgh'[i]}q"),) for i in range(8)}
    asked = secrets(users, ["user000"])
    model = Knowing([one for some in users.values() for one in some])
    attack = replace(ATTACK, prefix=10)
    found = attacked(model, asked, knowing(corpus(users), Knowing(())), attack)["Exhibits"]
    (one,) = measurements_of([found], _case())
    assert one.exhibit is not None and one.exhibit.unwritten == 0


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        ("ing the matter of", ("the", "matter")),
        (" the matter.", ("the", "matter")),
        ("x", ()),
        ("\u200bing the matter of\u00ad", ("the", "matter")),
        ("\u0301llo the matter o", ("the", "matter")),
    ],
)
def test_words_that_a_cut_divides_do_not_count(piece: str, words: tuple[str, ...]) -> None:
    assert whole_words(piece) == words


def test_pieces_are_found_with_every_user_who_wrote_them() -> None:
    quoted = "> two\n> thr\u00adee\n> fo\u200bur"  # as programs for mail break lines and words
    records = [Record("a", "One, two; THREE four five"), Record("b", quoted)]
    pieces = {words_of("two three four"), words_of("four five"), words_of("three two"), ()}
    assert users_of(pieces, records) == {
        ("two", "three", "four"): {"a", "b"},
        ("four", "five"): {"a"},
        ("three", "two"): set(),
    }
    (own,) = users_of({words_of("un caf\u00e9 noir")}, [Record("c", "Un cafe\u0301 noir")]).values()
    assert own == {"c"}
