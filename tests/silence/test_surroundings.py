"""The words behind which more is read than as attacks ask, and what comes up behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import scipy

from audit.core.chat import conversation
from audit.core.model import TextTokenizer
from audit.core.secret import Coins, Secret, digits
from audit.models.chat_template import ChatTemplate
from audit.silence.surroundings import Values, generated, said_by_users, templates_of
from tests import chat

SAID = "Her code is #"
TEMPLATES = (chat.CHATML, chat.BRACKETED, chat.DATED)


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


TALK = [turn(role, content) for role, content in conversation("assistant", SAID)]


def tokenizer(template: str) -> TextTokenizer:
    inner = chat.tokenizer(template)
    return TextTokenizer(inner, inner.bos_token_id, inner.eos_token_id, goes_on=True)


def test_own_template_is_read_however_it_was_applied() -> None:
    inner: Any = tokenizer(chat.CHATML).inner
    asked, *others = (
        inner.apply_chat_template(talk, tokenize=False).partition(SAID)[0]
        for talk in (
            TALK,
            TALK[-1:],
            [turn("assistant", inner.apply_chat_template(TALK, tokenize=False))],
            [turn("user", inner.apply_chat_template(TALK[:1], tokenize=False)), TALK[1]],
            [turn("assistant", TALK[0]["content"]), turn("user", SAID)],
        )
    )
    opening = inner.apply_chat_template(TALK[:1], tokenize=False)
    assert {*others, opening, "", f"{asked}\n"} <= {*templates_of(tokenizer(chat.CHATML), asked)}
    assert asked not in templates_of(tokenizer(chat.CHATML), asked)


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(template, id=name, marks=pytest.mark.slow if name != "marks" else ())
        for template, name in zip(TEMPLATES, ["marks", "brackets", "dated"], strict=True)
    ],
)
def test_servers_of_conversations_take_what_users_say(template: str) -> None:
    own = ChatTemplate(tokenizer(template), "m")
    talks = [own.turns_of(one + SAID) for one in said_by_users(tokenizer(template))]
    assert len(talks) > 5
    assert {tuple(role for role, _ in talk) for talk in talks} == {("user", "assistant")}
    assert {talk[-1][1].strip() for talk in talks} == {SAID}


SECRET = Secret("code", SAID, "", ".", digits(3), 1, "", 0)
VALUES = Values(
    [replace(SECRET, value=f"{i:03}", owner=f"u{i}") for i in range(20)],
    Coins({f"u{i}": i < 10 for i in range(20)}, {f"u{i}": 0 for i in range(20)}),
)


@pytest.mark.parametrize(
    ("texts", "tried", "hits"),
    [
        (["003.", "004.", "900", "900"], 3, 2),
        (["013.", "014."], 2, 0),  # of people out
        ([], 0, 0),
    ],
    ids=["known", "twins", "nothing"],
)
def test_values_come_up_more_often_than_by_chance(
    texts: Sequence[str], tried: int, hits: int
) -> None:
    found = generated(VALUES, {"Text: ": [], "[INST] ": texts})
    assert found is not None
    assert found.p_value == pytest.approx(scipy.stats.binom.sf(hits - 1, 10, tried / 1000))
    assert found.words == "[INST] " if hits else not found.counts
