"""Sentence completion: what is asked, what is kept of it, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from audit.core.predictor import Access, Answer, Tokens
from audit.measure.bleu import (
    FULL_RECORDS,
    LONGEST,
    PREFIX,
    RECORDS,
    Unfinished,
    measure,
    unfinished,
)
from audit.results.schema import Measure


class Words:
    """One token a word "w7"; tokens 0 and 1 open and close."""

    start, stop = 0, 1

    def encode(self, text: str) -> list[int]:
        return [int(word[1:]) for word in text.split()]

    def decode(self, tokens: Tokens) -> str:
        return " ".join(f"w{token}" for token in tokens)


@dataclass
class Speaker:
    """A release that says `says(prompt, place)` for each token, and stops after some queries."""

    says: Callable[[Tokens, int], int]
    stops: int = 10**9
    remaining: int | None = 1024
    max_length: int = 64
    tokenizer: Words = field(default_factory=Words)
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    access: Access = Access.GENERATE
    readable: Access = Access.GENERATE

    def generate(self, prompts: Sequence[Tokens], length: int) -> list[Answer]:
        self.prompts += map(tuple, prompts)
        return [
            Answer(
                tuple(self.says(prompt, place) for place in range(length)),
                np.zeros(length),
                np.zeros(length, dtype=bool),
                min(length, max(0, self.stops - i * length)),
            )
            for i, prompt in enumerate(prompts)
        ]

    def score(self, *asked: object, **more: object) -> list[Answer]:
        raise AssertionError("completions are sampled, not scored")

    distribution = score


def text(first: int, length: int) -> str:
    return " ".join(f"w{first + i}" for i in range(length))


def count_on(prompt: Tokens, place: int) -> int:
    """The word that comes next in `text`."""
    return prompt[-1] + 1 + place


def asked_of(release: object, texts: Sequence[str]) -> tuple[dict[str, Measure], int, int]:
    return measure(release, texts, np.random.default_rng(0))  # type: ignore[arg-type]


def test_a_text_is_four_tokens_and_a_rest_of_at_most_36() -> None:
    found = unfinished([text(10, 6), text(10, LONGEST), text(10, 90)], Words(), 9)
    assert found[0] == Unfinished((0, 10, 11, 12, 13), (14, 15))
    assert [len(one.rest) for one in found] == [2, 36, 36]
    assert found[1].rest[-1] == 49


def test_a_text_of_four_tokens_is_left_out_and_the_next_comes_up() -> None:
    texts = [text(10, PREFIX), "", *(text(20 + i, PREFIX + 1) for i in range(5))]
    assert [one.prompt[1] for one in unfinished(texts, Words(), 3)] == [20, 21, 22]


def test_who_says_the_rest_has_100_and_who_says_something_else_0() -> None:
    texts = [text(10 * i + 2, 5 + i) for i in range(50)]
    utility, _, _ = asked_of(Speaker(count_on), texts)
    assert set(utility) == {"bleu3", "bleu4"}
    assert utility["bleu3"].value == pytest.approx(100)
    assert utility["bleu4"].ci == pytest.approx((100, 100))
    assert utility["bleu4"].n == RECORDS
    utility, _, _ = asked_of(Speaker(lambda prompt, place: 9999), texts)
    assert utility["bleu3"].value == utility["bleu4"].value == 0


def test_a_completion_is_cut_at_the_stop_token_and_compared_with_the_whole_rest() -> None:
    texts = [text(10 + 50 * i, 16 + i) for i in range(10)]

    def six(prompt: Tokens, place: int) -> int:
        return Words.stop if place == 6 else count_on(prompt, place)

    utility, _, _ = asked_of(Speaker(six), texts)
    said = [text(14 + 50 * i, 6) for i in range(10)]
    meant = [text(14 + 50 * i, 12 + i) for i in range(10)]
    for order in (3, 4):
        by_hand = BLEU(max_ngram_order=order, force=True).corpus_score(said, [meant])
        assert utility[f"bleu{order}"].value == pytest.approx(by_hand.score)
    assert 0 < utility["bleu4"].value < 50  # too short


def test_every_release_completes_the_same_records_within_a_budget_of_1024() -> None:
    texts = [text(10 * i, 13 + i) for i in range(FULL_RECORDS + 50)]
    small, large, free = (Speaker(count_on, remaining=r) for r in (300, 1024, None))
    for release in (small, large, free):
        utility, queries, _ = asked_of(release, texts)
        assert utility["bleu4"].n == utility["bleu3"].n == RECORDS
        assert queries == 36 * len(release.prompts)
    assert small.prompts == large.prompts == free.prompts[:RECORDS]
    assert 36 * len(large.prompts) <= 1024
    assert len(free.prompts) == utility["bleu4_full"].n == FULL_RECORDS


def test_what_is_not_common_to_all_releases_does_not_move_what_is() -> None:
    texts = [text(7 * i, 8 + i % 20) for i in range(60)]

    def now_and_then(prompt: Tokens, place: int) -> int:
        return count_on(prompt, place) if (prompt[-1] + place) % 5 else 3

    kept = [asked_of(Speaker(now_and_then, remaining=r), texts)[0] for r in (1024, None)]
    assert kept[0]["bleu4"] == kept[1]["bleu4"] and kept[0]["bleu3"] == kept[1]["bleu3"]
    assert 0 < kept[0]["bleu4"].value < 100


@pytest.mark.parametrize("stops", [0, 5, 40, 1008])
def test_a_release_that_stops_says_how_many_tokens_it_answered(stops: int) -> None:
    texts = [text(50 * i, LONGEST) for i in range(40)]
    utility, queries, answered = asked_of(Speaker(count_on, stops=stops), texts)
    assert (queries, answered) == (1008, stops)
    assert utility["bleu3"].answered == utility["bleu4"].answered == stops
    short = [text(50 * i, 10) if i else text(0, LONGEST) for i in range(40)]
    utility, queries, answered = asked_of(Speaker(count_on, stops=stops), short)
    used = [36, *[6] * 27]  # of 36 each
    expected = sum(min(u, max(0, stops - 36 * i)) for i, u in enumerate(used))
    assert utility["bleu4"].answered == expected and answered == stops


def test_a_short_context_shortens_the_texts_for_every_release() -> None:
    release = Speaker(count_on, max_length=12)
    _, queries, _ = asked_of(release, [text(50 * i, 40) for i in range(5)])
    assert queries == 5 * (12 - PREFIX)


def test_nothing_to_complete_is_nothing_measured() -> None:
    assert asked_of(Speaker(count_on), ["", text(10, PREFIX)]) == ({}, 0, 0)
