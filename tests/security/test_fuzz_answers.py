"""Whatever an endpoint answers is an answer, or one line; it never takes the machine's memory."""

from __future__ import annotations

import contextlib
import json
import random
import resource
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from audit.core.errors import UsageError
from audit.core.masking import without_key
from audit.core.time_limit import limited
from audit.models.endpoint.http import LARGEST, Endpoint, RefusedError, _retry_after
from audit.models.endpoint.wire_format import choice_of, generated, same_tokens

CASES = 10_000
ANSWERS: tuple[dict[str, Any], ...] = (
    {
        "choices": [
            {
                "text": " a b",
                "finish_reason": "length",
                "logprobs": {
                    "tokens": ["token_id:1", " b"],
                    "token_logprobs": [None, -0.5],
                    "top_logprobs": [None, {" b": -0.5}],
                },
            }
        ],
        "usage": {"completion_tokens": 2, "prompt_tokens": 3},
        "model": "m",
    },
    {
        "choices": [
            {
                "message": {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
                "finish_reason": "stop",
                "logprobs": {
                    "content": [
                        {
                            "token": "a",
                            "id": 1,
                            "logprob": -0.1,
                            "top_logprobs": [{"token": "a", "id": 1, "logprob": -0.1}],
                        }
                    ]
                },
            }
        ]
    },
)
DEEP: Any = json.loads("[" * 400 + "]" * 400)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, -(10**400), 0.5, 50.0, -1e308),
    *(float("inf"), float("-inf"), float("nan"), "", "a", "\ud800", "\x1b[31m", "token_id:1e9"),
    *("token_id:-1", "token_id:" + "9" * 5000, "bytes:\\xff", "9" * 400, "a" * 100_000),
    *([], {}, [[]], [{}], [1], ["a"], {"a": 1}, {"token": None}, [None] * 1000, DEEP),
)


class Words:
    """A tokenizer of two words."""

    start, stop = 0, 0

    def encode(self, text: str) -> list[int]:
        return [1, 2]

    def decode(self, tokens: list[int]) -> str:
        if not all(0 <= token < 2**31 for token in tokens):
            raise OverflowError("out of range")
        return " b" * len(tokens)


def changed(tree: Any, chance: random.Random) -> Any:
    """Change some places of an answer: others in their place, left out, or twice."""
    if chance.random() < 0.06:
        return chance.choice(ODD)
    if isinstance(tree, dict):
        kept = {k: changed(v, chance) for k, v in tree.items() if chance.random() > 0.04}
        return (
            {**kept, chance.choice(list(tree)): chance.choice(ODD)}
            if chance.random() < 0.04
            else kept
        )
    if isinstance(tree, list):
        kept_items = [changed(v, chance) for v in tree if chance.random() > 0.04]
        return kept_items * 2 if chance.random() < 0.04 else kept_items
    return tree


def read(answer: Any) -> None:
    """Read an answer in every way that audits do."""
    if not isinstance(answer, dict):  # refused before it is read
        return
    tokenizer: Any = Words()
    choice = choice_of(answer)
    same_tokens(tokenizer, [1, 2], choice.tokens)
    generated(choice, tokenizer, 2)


@pytest.mark.slow
def test_every_answer_ends_as_an_answer_or_one_line() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ends = {True: 0, False: 0}
    for seed in range(CASES):
        chance = random.Random(seed)
        answer = changed(chance.choice(ANSWERS), chance)
        try:
            read(answer)
            ends[True] += 1
        except UsageError as error:
            assert "\n" not in str(error), seed
            ends[False] += 1
        except Exception as error:
            raise AssertionError(f"case {seed}: {error!r}") from error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1 << 20  # kilobytes: 1 GB
    assert min(ends.values()) > CASES // 50  # both ends were met


@pytest.mark.slow
def test_bytes_of_any_kind_are_an_answer_or_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same through the client: statuses, headers, and bytes that are no JSON."""
    content = [json.dumps(one).encode() for one in ANSWERS]

    def answered(chance: random.Random) -> httpx.Response:
        body = bytearray(chance.choice(content))
        for _ in range(chance.randrange(4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        headers = {
            "Retry-After": chance.choice(
                ["-1", "nan", "9" * 400, "Mon, 01 Jan 99999 00:00:00 GMT"]
            ),
            "Content-Encoding": chance.choice(["identity", "identity", "gzip, gzip", "br", "x"]),
            "Location": chance.choice(["http://[", "/x", "\x7f", ""]),
        }
        return httpx.Response(chance.choice([200, 200, 200, 302, 400, 429, 500, 503, 599]),
                              headers=headers, stream=httpx.ByteStream(bytes(body)))  # fmt: skip

    real = httpx.Client
    state = random.Random(0)
    transport = httpx.MockTransport(lambda request: answered(state))
    monkeypatch.setattr(httpx, "Client", lambda **kwargs: real(transport=transport))
    with Endpoint("http://127.0.0.1:1/v1", 0, 60.0).connected() as post:
        for _ in range(500):
            with contextlib.suppress(UsageError, RefusedError):
                read(post("completions", {}))


@pytest.mark.parametrize("text", ["1e400", "9" * 400, "nan", "-1", "x", "", "\x00"])
def test_wait_that_a_server_names_is_a_number_of_seconds_or_none(text: str) -> None:
    wait = _retry_after(httpx.Response(429, headers={"Retry-After": text}))
    assert wait is None or 0 <= wait < float("inf")


KEY = "sk-proj-0123456789abcdef"


@dataclass
class Letters:
    """A tokenizer with a token for each character."""

    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, tokens: Any) -> str:
        return "".join(map(chr, tokens))


def in_tokens(text: str) -> dict[str, Any]:
    return {"content": [{"token": c, "id": ord(c), "logprob": -1.0} for c in text]}


ECHOES: dict[str, dict[str, Any]] = {  # choices whose text is a key
    "text": {"text": f"key {KEY}", KEY: [KEY]},
    "parts": {"message": {"content": ["key ", KEY[:9], {"type": "text", "text": KEY[9:]}]}},
    "tokens": {"text": f"key {KEY}", "logprobs": in_tokens(f"key {KEY}")},
}


@pytest.mark.parametrize("given", [KEY, "EMPTY"])
@pytest.mark.parametrize("where", ECHOES)
def test_key_that_an_answer_repeats_is_hidden(
    monkeypatch: pytest.MonkeyPatch, where: str, given: str
) -> None:
    monkeypatch.setenv("AUDIT_API_KEY", given)
    said = answered(monkeypatch, json.dumps({"choices": [ECHOES[where]]}).encode())
    choice = choice_of(said)
    shown = "key …" if given == KEY else f"key {KEY}"
    assert choice.text == shown
    tokens = generated(choice, Letters(), len(shown)).tokens  # type: ignore[arg-type]
    assert Letters().decode(tokens) == shown
    assert where == "parts" or (KEY in str(said)) == (given != KEY)


def answered(monkeypatch: pytest.MonkeyPatch, content: bytes) -> dict[str, Any]:
    """Return the answer that an audit reads from these bytes."""
    real, transport = (
        httpx.Client,
        httpx.MockTransport(lambda _: httpx.Response(200, stream=httpx.ByteStream(content))),
    )
    monkeypatch.setattr(httpx, "Client", lambda **kwargs: real(transport=transport))
    with Endpoint("http://127.0.0.1:1/v1", 0, 60.0).connected() as post:
        return post("completions", {})


@pytest.mark.parametrize("part", ["a", "\\\\", "%25", "c2st", "s", "sk-proj-"])
def test_search_for_a_key_takes_a_time_like_the_length(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setenv("AUDIT_API_KEY", KEY)
    text = part * (100_000 // len(part))
    with limited(60, "it", ""):  # a quadratic search takes an hour
        assert without_key(text) == text


@pytest.mark.parametrize("item", [b"[],", b"{},", b"0,"])
def test_answer_of_many_values_is_not_read(monkeypatch: pytest.MonkeyPatch, item: bytes) -> None:
    """64 MB of empty lists would take 2 GB."""
    content = b'{"choices": [' + item * ((LARGEST - 99) // len(item)) + b"0]}"
    assert_unread(monkeypatch, content)


def test_answer_of_brackets_in_brackets_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads 900 of them, and has no stack left for whoever looks into them."""
    assert_unread(monkeypatch, b'{"a":' * 900 + b"1" + b"}" * 900)


def assert_unread(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    with pytest.raises(UsageError, match="answers with no JSON object"):
        answered(monkeypatch, content)
