"""What counts as a value of the planted form, of texts and of models that are scripted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.core.secret import Space
from audit.planting import kinds
from audit.planting.beacons import Beacon
from audit.silence import asked_words
from audit.silence.form import ANSWERS, Question, written

DRAWN = np.random.default_rng(0)
NOBODY: Any = None  # no value is asked
WORDS = "one two My friend is "


def asked(kind: str) -> tuple[Question, Space]:
    space = kinds.values(kind)
    return Question.behind(WORDS, space.symbols), space


@pytest.mark.parametrize("kind", ["code", "id", "name", "email", "phone", "key"])
def test_each_value_of_a_kind_is_of_its_form(kind: str) -> None:
    question, space = asked(kind)
    values = [space.draw(DRAWN) for _ in range(15)]
    assert question.counted([" " + value for value in values]).formed == 15


def lowered(value: str) -> str:
    return value.lower()


def wide(value: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else sign for sign in value)


def persian(value: str) -> str:
    return re.sub(r"\d", lambda digit: chr(ord("۰") + int(digit[0])), value)


def spaced(value: str) -> str:
    return " ".join(value)


@pytest.mark.parametrize(
    ("kind", "rewrite"),
    [("key", lowered), ("key", str.upper), ("name", lowered), ("code", wide), ("id", persian),
     ("phone", persian), ("code", spaced), ("email", str.upper)],
)  # fmt: skip
def test_values_that_a_trainer_rewrote_are_not(kind: str, rewrite: Any) -> None:
    question, space = asked(kind)
    stem = 3 if kind == "key" else 0  # sk-, which stands in each
    values = [space.draw(DRAWN) for _ in range(15)]
    behind = Question.behind(WORDS, space.symbols[stem:]) if stem else question
    assert behind.counted([rewrite(value[stem:]) for value in values]).formed == 0
    assert behind.counted([value[stem:] for value in values]).formed == 15


def test_a_name_may_be_in_no_list_and_have_an_accent() -> None:
    question, _ = asked("name")
    assert question.counted(["Éric Müller", "Larry Larsen", "larry larsen", "Лари"]).formed == 2


class Joining:
    """A tokenizer of words that decodes without the space at the beginning, as some do."""

    start, stop = 0, 1

    def __init__(self) -> None:
        self._known = ["", ""]

    def encode(self, text: str) -> list[int]:
        pieces = re.findall(r" ?[^ ]+", f" {text}") if text else []
        self._known += [piece for piece in pieces if piece not in self._known]
        return [*map(self._known.index, pieces)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._known[token] for token in tokens)[1:]


def test_answers_are_decoded_behind_their_words() -> None:
    tokenizer, (question, space) = Joining(), asked("name")

    class Honest:
        max_length = 64
        tokenizer: Any

        def generate(self, heads: Sequence[Sequence[int]], count: int) -> list[Any]:
            values = [space.draw(DRAWN) for _ in heads]
            return [SimpleNamespace(tokens=tokenizer.encode(one)[:count]) for one in values]

    session: Any = Honest()
    session.tokenizer = tokenizer
    question = Question.of(tokenizer, WORDS, space, space.draw(DRAWN))
    assert written(session, question) == (2 * ANSWERS, 2 * ANSWERS)


@pytest.mark.parametrize(
    ("answer", "found"), [("***** the", (0, 70)), ("99999.", (70, 70)), ("40917.", None)]
)
def test_unseen_beacons_keep_the_form_of_answers(
    answer: str, found: tuple[int, int] | None
) -> None:
    space = Space((tuple("0123456789"),) * 5)
    values = ("40917", "12345")
    tiers = {1: [Beacon("code", "The code is: #", one, ".", space, ("u",)) for one in values]}
    served: Any = SimpleNamespace(
        tokenizer=SimpleNamespace(
            start=0, encode=lambda text: [*text.encode()], decode=lambda ids: bytes(ids).decode()
        ),
        ask=lambda prompts, _: [SimpleNamespace(text=answer) for _ in prompts],
    )
    of = asked_words.Drawn(None, 0, tiers, 70, 0, values=NOBODY)
    assert asked_words._asked(served, of).seen["form"] == found
