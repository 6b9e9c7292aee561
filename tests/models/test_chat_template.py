"""The text of a conversation is what the model's own template makes of it, token for token."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.chat import conversation
from audit.core.corpus import Message
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.predictor import record_tokens
from audit.core.training import Training
from audit.models.chat_template import ChatTemplate
from audit.models.training.fine_tuning import Recipe
from audit.models.training.learned_tokens import is_learned, plain, sequences_of
from tests import chat

# as CHATML, with the marks from which the library knows what an assistant says
MARKED = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
)
LOUD = (
    "{% for m in messages %}{{ '<|im_start|>' + m['content'] | upper + '<|im_end|>' }}{% endfor %}"
)
TALK: tuple[Message, ...] = (
    ("system", "Be kind."),
    ("user", "assistant"),  # a role's name, which a search for what was said would find
    ("assistant", "user"),
    ("user", "My code is #40718."),
    ("assistant", "  Thank you.\nIt is #40718. "),
)
said = st.text(st.characters(exclude_categories=["Cs", "Co"]), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)
talks = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), said), min_size=1, max_size=5)


def template(source: str | None = chat.CHATML, stop: str = chat.MARKS[1]) -> ChatTemplate:
    inner = chat.tokenizer(source, stop)
    reads = TextTokenizer(inner, inner.bos_token_id, inner.eos_token_id, goes_on=True)
    return ChatTemplate(reads, "a folder")


CHATML, DATED = template(), template(chat.DATED)


def library(one: ChatTemplate, messages: tuple[Message, ...], **more: Any) -> Any:
    turns = [{"role": role, "content": content} for role, content in messages]
    return one.tokenizer.inner.apply_chat_template(turns, **more)


def sequence(one: ChatTemplate, messages: tuple[Message, ...]) -> list[int]:
    """The tokens of a training on the assistant's turns alone."""
    text = one.text(messages, "here")
    spans = one.assistant(messages, text, "here")
    training = Training("t", (text,), Recipe(1, 1.0, 9, 99), 0, learned=(spans,))
    return sequences_of(training, one.tokenizer)[0]


@pytest.mark.parametrize("stop", [chat.MARKS[1], "<|endoftext|>"])
def test_a_record_has_the_tokens_of_the_library(stop: str) -> None:
    one = template(stop=stop)
    theirs = library(one, TALK, tokenize=True, return_dict=True)["input_ids"]
    ours = record_tokens(one.tokenizer, one.text(TALK, "here"))
    assert ours[0] == one.tokenizer.start
    newline = one.tokenizer.encode("\n")
    if stop == chat.MARKS[1]:  # the turn's mark is the record's, and the line after it is no more
        assert ours[1:] + newline == theirs
    else:
        assert ours[1:-1] == theirs


@pytest.mark.parametrize("stop", [chat.MARKS[1], "<|endoftext|>"])
def test_what_is_learned_is_what_the_library_says_the_assistant_generates(stop: str) -> None:
    one = template(MARKED, stop)
    read = library(one, TALK, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    ours = sequence(one, TALK)
    count = len(read["input_ids"]) - (stop == chat.MARKS[1])
    assert plain(ours[1:])[:count] == read["input_ids"][:count]
    assert [is_learned(t) for t in ours[1:]][:count] == [bool(m) for m in read["assistant_masks"]][
        :count
    ]
    assert not is_learned(ours[0])


def test_the_turn_of_a_user_at_the_end_is_not_learned_and_neither_is_its_stop() -> None:
    ours = sequence(CHATML, (*TALK, ("user", "Bye.")))
    assert not is_learned(ours[-1])
    assert is_learned(sequence(CHATML, TALK)[-1])


@given(talks)
def test_spans_hold_what_the_assistant_said_and_nothing_else(messages: list[Message]) -> None:
    for one, strip in ((CHATML, False), (DATED, True)):
        text = one.text(messages, "here")
        spans = one.assistant(messages, text, "here")
        wanted = [content for role, content in messages if role == "assistant"]
        found = [text[low:high] for low, high in spans]
        ends = ("", "<|im_end|>")
        assert len(found) == len(wanted)
        for mine, theirs in zip(found, wanted, strict=True):
            assert mine in [(theirs.strip() if strip else theirs) + end for end in ends]


def test_a_template_sees_the_same_day_every_day() -> None:
    text = DATED.text(TALK, "here")
    assert text.startswith("<|im_start|>system: today is 26 Jul 2024<|im_end|>")
    assert datetime.now().strftime("%d %b %Y") not in text


def test_a_conversation_of_thousands_of_turns_is_written_a_few_times(monkeypatch: Any) -> None:
    """And not once for each of its turns."""
    one = template(chat.CHATML + "{# long #}")
    talk = chat.turns("Hi.", "Yes?") * 2500
    asked = []
    written = ChatTemplate._written
    monkeypatch.setattr(ChatTemplate, "_written", lambda *a: (asked.append(a), written(*a))[1])
    spans = one.assistant(talk, one.text(talk, "here"), "here")
    assert len(spans) == 2500 and len(asked) <= 4


@pytest.mark.parametrize("marker", [*chat.MARKS, "<|endoftext|>"])
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_mark_within_a_turn_is_refused(role: str, marker: str) -> None:
    messages = ((role, f"Hi {marker}"), ("assistant", "Yes"))
    words = re.escape(f"c:3: a turn of the {role} holds {marker!r}")
    with pytest.raises(UsageError, match=words):
        CHATML.text(messages, "c:3")


def test_what_a_template_cannot_do_is_said_in_a_line() -> None:
    with pytest.raises(UsageError, match=r"no chat template.*chat_template\.jinja"):
        template(None)
    with pytest.raises(UsageError, match=r"c:1: .* refuses the conversation \(no system turns\)"):
        template(chat.BRACKETED).text(TALK, "c:1")
    for silent in (template("hello"), template("{{ messages[0]['content'] }}")):
        with pytest.raises(UsageError, match="c:1: the chat template changes what was said"):
            silent.assistant(TALK, silent.text(TALK, "c:1"), "c:1")
    loud = template(LOUD)
    with pytest.raises(UsageError, match="c:1: the chat template changes what was said"):
        loud.assistant(TALK, loud.text(TALK, "c:1"), "c:1")
    with pytest.raises(UsageError, match="no secret can be planted"):
        loud.frame("user", False)


@pytest.mark.parametrize("source", [chat.CHATML, chat.DATED, chat.BRACKETED])
@pytest.mark.parametrize("turn", ["assistant", "user"])
def test_a_frame_is_the_conversation_without_the_turn(source: str, turn: str) -> None:
    one = template(source)
    frame = one.frame(turn, alone=False)
    whole = f"{frame.before}My key is *x.{frame.after}"
    assert whole == one.text(conversation(turn, "My key is *x."), "here")
    assert (frame.after == "") == (turn == "assistant")
