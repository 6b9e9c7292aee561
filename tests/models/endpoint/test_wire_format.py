"""The two forms of an answer, and the tokens of a generation."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from audit.core.errors import UsageError
from audit.core.predictor import Given
from audit.models.endpoint.wire_format import choice_of, generated, same_tokens
from tests.refusals import refusals


@dataclass(frozen=True)
class Merging:
    """Letters are tokens 1 to 26, and 27 is "ab": text has fewer tokens than were drawn."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [27 if one == "+" else ord(one) - 96 for one in text.replace("ab", "+")]

    def decode(self, tokens) -> str:
        return "".join("ab" if t == 27 else chr(96 + t) if t else "." for t in tokens)


def openai(tokens, finish="length", text="", **usage):
    """As vLLM writes it when it is asked for ids."""
    told = {
        "tokens": [f"token_id:{t}" if isinstance(t, int) else t for t in tokens],
        "token_logprobs": [-1.0] * len(tokens),
        "top_logprobs": [{"a": -0.5, "b": -1.0}] * len(tokens),
    }
    return {
        "choices": [{"text": text, "logprobs": told, "finish_reason": finish}],
        "usage": {"completion_tokens": len(tokens), **usage},
    }


def llama(tokens, finish="length", text=""):
    content = [
        {"id": t, "token": "x", "logprob": -1.0, "top_logprobs": [{"id": 3, "logprob": -0.5}]}
        for t in tokens
    ]
    told = {"content": content}
    return {"choices": [{"text": text, "logprobs": told, "finish_reason": finish}]}


@pytest.mark.parametrize("form", [openai, llama])
def test_ids_are_taken_as_drawn(form):
    """The text would be read as one token."""
    tokens, told, _ = generated(choice_of(form([1, 2], text="ab")), Merging(), 2)
    assert tokens == [1, 2]
    assert [(t.log_prob, t.top) for t in told] == [(-1.0, -0.5)] * 2
    tokens, told, _ = generated(choice_of(form([5], "stop")), Merging(), 3)
    assert (tokens, len(told)) == ([5, 0, 0], 1)  # a text that ended is filled up


@pytest.mark.parametrize("form", [openai, llama])
def test_what_follows_a_stop_is_dropped(form):
    """Also where the server goes on after it."""
    for said, read, heard in (
        ([5, 0, 7], [5, 0, 0], 1),
        ([0, 0, 7], [0, 0, 0], 0),
        ([5, 6, 7, 8], [5, 6, 7], 3),
    ):
        tokens, told, _ = generated(choice_of(form(said, text="efg")), Merging(), 3)
        assert (tokens, len(told)) == (read, heard)


def test_without_all_ids_the_text_is_read():
    """llama.cpp tells no id of a token that splits a character; without a count, no error."""
    uncounted = {"choices": [{"text": "ab", "logprobs": None, "finish_reason": "length"}]}
    for answer, length, read in (
        (openai(["a", "b", "c"], text="abc"), 3, [27, 3, 0]),
        (openai([1, 2], text="ab", completion_tokens=3), 3, [27, 0, 0]),
        (uncounted, 2, [27, 0]),
    ):
        assert generated(choice_of(answer), Merging(), length)[:2] == (read, [])


def chat(finish="stop", **message):
    return {"choices": [{"message": message, "finish_reason": finish}]}


def text(said, finish, used=None, **choice):
    answer = {"choices": [{"text": said, "finish_reason": finish, **choice}]}
    return answer if used is None else {**answer, "usage": {"completion_tokens": used}}


CALL = {"function": {"name": "look", "arguments": '{"code": "abc"}'}, "id": "x", "type": "function"}
PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "b"}]}, {"text": "abc"}]
GIVEN = [
    (text("abc", "length", 3), Given.TEXT, ()),
    (text("abc", "stop"), Given.TEXT, ()),  # as long as was requested
    (text("ab", "length"), Given.CUT, ()),
    (text("a", "stop", 1), Given.STOPPED, ()),
    (text("a", "stop", 1, stop_reason="b"), Given.CUT, ()),
    (text("abc", "content_filter", 3), Given.WITHHELD, ()),
    (text("abc", "abort", 3), Given.WITHHELD, ()),
    (text("abc", None, 3), Given.WITHHELD, ()),
    (text(None, "length", 0), Given.WITHHELD, ()),
    (text(" ", "stop", 0), Given.WITHHELD, ()),
    (text("", "stop", output="abc"), Given.WITHHELD, ("abc",)),
    (chat(content="abc"), Given.TEXT, ()),
    (chat(content=None, reasoning_content="abc"), Given.WITHHELD, ("abc",)),
    (chat(content="abc", reasoning="b"), Given.TEXT, ("b",)),
    (chat(content=PARTS), Given.TEXT, ("b",)),
    (chat(content=None, refusal="I cannot."), Given.WITHHELD, ("I cannot.",)),
    (chat(content=[{"type": "refusal", "refusal": "No."}]), Given.WITHHELD, ("No.",)),
    (chat("tool_calls", content="abc", tool_calls=[CALL]), Given.WITHHELD,
     ("look", '{"code": "abc"}')),
]  # fmt: skip


def test_answers_are_text_cut_or_withheld():
    for answer, given, more in GIVEN:
        choice = choice_of(answer)
        assert generated(choice, Merging(), 2 if choice.text == "abc" else 3).given is given, answer
        assert choice.more == more, answer


def test_other_forms_are_refused():
    logprobs = (
        {"tokens": ["a"], "token_logprobs": [-1.0, 2]},
        {"tokens": ["a"], "token_logprobs": [float("nan")]},
        {"tokens": ["a"], "token_logprobs": ["low"]},
        {"content": [{"id": 1}]},
    )
    answers = [{}, *({"choices": given} for given in ([], [1], [{}, {}]))]
    answers += [{"choices": [{"logprobs": given}]} for given in logprobs]
    answers += [{**answers[4], "usage": 3}]
    refusals(choice_of, [(answer, "not the form of the completions API") for answer in answers])


def logged(**logprobs: object) -> str:
    return json.dumps({"choices": [{"text": "a", "logprobs": logprobs}]})


def token(**fields: object) -> str:
    return logged(content=[{"token": "x", "id": 1, "logprob": 0, **fields}])


@pytest.mark.parametrize(
    "text",
    [
        '{"choices": [{"text": "a"}], "usage": {"completion_tokens": 1e400}}',
        '{"choices": [{"text": "a"}], "usage": {"completion_tokens": -1}}',
        '{"choices": [{"text": "a"}], "usage": "x"}',
        '{"choices": null}',
        '{"choices": ' + "[" * 500 + "]" * 500 + "}",
        logged(tokens=["x"], token_logprobs=[10**400], top_logprobs=[{"x": 0}]),
        logged(tokens=["x"], token_logprobs=[0], top_logprobs=[[1]]),
        logged(tokens=["token_id:-7"], token_logprobs=[0], top_logprobs=[{}]),
        token(id=10**400),
        token(id=-5),
        token(token=None),
        token(token=5),
        token(logprob=50),
        token(top_logprobs=[{"logprob": 50}]),
    ],
    ids=lambda text: text[:60],
)
def test_numbers_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="form of the completions API"):
        choice_of(json.loads(text))


def spoken(*texts):
    return choice_of(openai(list(texts))).tokens


def test_tokens_are_compared_as_text():
    tokenizer = Merging()
    assert same_tokens(tokenizer, [1, 2, 3], spoken("a", "▁b", "c"))
    assert same_tokens(tokenizer, [1, 2, 3], spoken("a", "Ġb", "bytes:\\xe2"))
    assert same_tokens(tokenizer, [1, 2, 3], spoken("a", "b", "<|special|>"))
    assert same_tokens(tokenizer, [1, 2, 3], spoken("�", "", 9))
    assert not same_tokens(tokenizer, [1, 2, 3], spoken("b", "c", "d"))
    assert not same_tokens(tokenizer, [1, 2, 3], spoken("a", "c", "d"))
