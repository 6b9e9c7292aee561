"""The HTTP side: pace, retries, timeouts, keys; every failure is one line."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.errors import UsageError
from audit.models.endpoint import http
from audit.models.endpoint.http import (
    Endpoint,
    Pace,
    RefusedError,
    address,
    address_of,
    is_url,
    url_of,
)


@dataclass
class Clock:
    """A clock that only sleeping and working move; a sleep may end a little early."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    early: float = 1.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds * self.early if seconds > 1e-6 else seconds


@given(
    rate=st.floats(0.05, 500),
    work=st.lists(st.floats(0, 3), min_size=2, max_size=40),
    early=st.floats(0.5, 1),
)
def test_no_stretch_of_time_holds_more_requests_than_its_rate(rate, work, early):
    clock = Clock(early=early)
    pace = Pace(rate, clock, clock.sleep)
    starts = []
    for seconds in work:
        pace.wait()
        starts.append(clock.now)
        clock.now += seconds
    for i, first in enumerate(starts):
        for j in range(i + 1, len(starts)):
            # j − i further requests need at least (j − i)/rate
            assert starts[j] - first >= (j - i) / rate * (1 - 1e-9) - 1e-9


def test_a_slow_server_is_not_waited_for_twice():
    clock = Clock()
    pace = Pace(1.0, clock, clock.sleep)
    for _ in range(5):
        pace.wait()
        clock.now += 2
    assert clock.slept == []


def test_without_a_rate_nothing_is_waited_for():
    clock = Clock()
    for _ in range(5):
        Pace(None, clock, clock.sleep).wait()
    assert clock.slept == []


def test_every_request_is_paced_also_one_that_is_sent_again(server, clock):
    server.switch(fail=429, times=1, after="0")
    fields = {"model": "tiny", "prompt": [0], "max_tokens": 1}
    endpoint = Endpoint(server.url, 1, 20.0, Pace(0.5, clock, clock.sleep))
    with endpoint.connected() as post:
        post("completions", fields)
        post("completions", fields)
    endpoint.get("models")
    # none before the first; the wait before a retry is part of the two seconds
    assert [s for s in clock.slept if s] == [0.5, 1.5, 2.0, 2.0]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ask(server, clock):
    def ask(url=None, retries=2, timeout=20.0, path="completions"):
        pace = Pace(None, clock, clock.sleep)
        fields = {"model": "tiny", "prompt": [0], "max_tokens": 1}
        with Endpoint(url or server.url, retries, timeout, pace).connected() as post:
            return post(path, fields)

    return ask


def told(ask, **given) -> str:
    """The line that a request fails with."""
    with pytest.raises((UsageError, RefusedError)) as failed:
        ask(**given)
    line = str(failed.value)
    assert "\n" not in line
    assert line.startswith(given.get("url") or "http://127.0.0.1")
    return line


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again(server, ask, clock, status):
    server.switch(fail=status, times=2)
    assert ask()["choices"]
    assert clock.slept == [0.5, 1.0]
    assert len(server.seen["asked"]) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_will_not_pass_is_asked_once(server, ask, clock, status):
    server.switch(fail=status)
    assert f"HTTP {status} (it failed)" in told(ask)
    assert clock.slept == []
    assert len(server.seen["asked"]) == 1


def test_retries_end_in_one_line(server, ask, clock):
    server.switch(fail=429, said="slow\ndown")
    line = told(ask, retries=5)
    assert "HTTP 429 (slow down) (tried 6 times)" in line
    assert "give a lower as_is:rate=" in line
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0]
    server.switch(fail=503)
    assert "tried" not in told(ask, retries=0)


def test_waits_grow_to_half_a_minute_and_no_more(server, ask, clock):
    server.switch(fail=502)
    told(ask, retries=9)
    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_the_server_says_how_long_to_wait(server, ask, clock):
    server.switch(fail=429, times=1, after="7")
    ask()
    assert clock.slept == [7.0]


def test_the_server_names_the_time_to_wait_for(server, ask, clock):
    server.switch(fail=503, times=1, after=formatdate(time.time() + 20, usegmt=True))
    ask()
    assert 15 < clock.slept[0] <= 20


@pytest.mark.parametrize("after", ["soon", "nan", "inf", "1e999", ""])
def test_a_wait_that_is_none_is_ours(server, ask, clock, after):
    server.switch(fail=429, times=1, after=after)
    ask()
    assert clock.slept == [0.5]


def test_a_time_that_is_over_is_not_waited_for(server, ask, clock):
    server.switch(fail=429, times=1, after="Wed, 21 Oct 2015 07:28:00 GMT")
    ask()
    assert clock.slept == [0.5]


def test_nobody_waits_for_a_day(server, ask, clock):
    server.switch(fail=429, after="86400")
    assert "HTTP 429" in told(ask)
    assert clock.slept == []


def test_a_server_that_hangs(server, ask, clock):
    server.switch(hang=0.6)
    line = told(ask, timeout=0.1, retries=1)
    assert "did not answer within 0.1 s (tried 2 times)" in line
    assert "as_is:timeout=SECONDS" in line
    time.sleep(0.7)  # it answers into the void before other tests ask it


def test_nobody_is_there(ask, clock):
    assert "cannot be reached" in told(ask, url="http://127.0.0.1:9/v1")
    assert clock.slept == [0.5, 1.0]


@pytest.mark.parametrize("garbage", ["<html>", "[1]", '"text"', "{"])
def test_what_is_no_completions_api(server, ask, garbage):
    server.switch(garbage=garbage)
    assert "no JSON object" in told(ask)


def test_only_a_refusal_is_one(server, ask):
    for status, refused in ((400, True), (422, True), (500, True), (503, False), (429, False)):
        server.switch(fail=status)
        with pytest.raises(RefusedError if refused else UsageError):
            ask(retries=0)


# the key


KEY = "sk-9f2c77e1"


def test_the_key_is_sent_and_never_shown(server, ask, monkeypatch):
    server.switch(key=KEY)
    assert "AUDIT_API_KEY" in told(ask)
    monkeypatch.setenv("AUDIT_API_KEY", "wrong-" + KEY)
    line = told(ask)  # the server repeats it
    assert "no such key: Bearer …" in line
    assert KEY not in line
    monkeypatch.setenv("AUDIT_API_KEY", f" {KEY}\n")
    assert ask()["choices"]
    assert server.seen["keys"][-1] == f"Bearer {KEY}"


def test_no_key_is_no_header(server, ask):
    ask()
    assert server.seen["keys"] == [""]


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "\x07"])
def test_what_no_header_can_hold_is_told(ask, monkeypatch, key):
    monkeypatch.setenv("AUDIT_API_KEY", key)
    with pytest.raises(UsageError, match="AUDIT_API_KEY: has characters") as failed:
        ask()
    assert key not in str(failed.value)


# addresses


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("https://example.org/", "https://example.org/v1"),
        ("https://example.org/models/a/openai", "https://example.org/models/a/openai"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_addresses(given, read):
    assert is_url(given)
    assert address(given) == read
    assert address(read) == read


@pytest.mark.parametrize(
    "given",
    ["http://", "http:///v1", "http://h:99999/v1", "http://h:x/", "http://h/v1?k=1", "http://h/#a"],
)
def test_no_addresses(given):
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:8000/v1"):
        address(given)


@pytest.mark.parametrize("given", ["http://user:pass@host/v1", "https://pass@host"])
def test_credentials_do_not_belong_into_an_address(given):
    with pytest.raises(UsageError, match="AUDIT_API_KEY") as failed:
        address(given)
    assert "pass" not in str(failed.value)


def test_folders_are_no_addresses():
    assert not any(map(is_url, ("out", "hf:name", "embedded", "/http://", "httpfolder")))


@given(st.text("abc/-."), st.none() | st.text("abc/-.", min_size=1))
def test_a_models_address_gives_its_url_back(path, model):
    url = f"http://host/{path}"
    assert url_of(address_of(url, model), model) == url


# servers that never end, and those that send elsewhere


@pytest.fixture
def raw(monkeypatch):
    """raw(head, piece, pause): the URL of a server that sends its head, then pieces for ever."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "AUDIT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(head, piece, pause):
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                connection.recv(1 << 16)
                connection.sendall(head)
                while piece:
                    connection.sendall(piece)
                    time.sleep(pause)

    def start(head, piece=b"", pause=0.0):
        threading.Thread(target=serve, args=(head, piece, pause), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    yield start
    listening.close()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("head", [OK + b"Content-Length: 900000\r\n\r\n", OK + b"X-Slow: "])
def test_a_server_that_drips_is_left(raw, head):
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"did not answer within 0\.5 s; give a longer"):
        Endpoint(raw(head, b"1", 0.05), 0, 0.5).get("models")
    assert time.monotonic() - began < 5


def test_an_endless_answer_is_cut(raw, monkeypatch):
    monkeypatch.setattr(http, "LARGEST", 3 << 20)
    url = raw(OK + b"Connection: close\r\n\r\n", b"[" * (1 << 16))
    with pytest.raises(UsageError, match="answers with more than 3 MB; is this the right"):
        Endpoint(url, 3, 20.0).get("models")


def test_deep_brackets_are_no_answer(raw):
    url = raw(OK + b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000)
    with pytest.raises(UsageError, match="answers with no JSON object"):
        Endpoint(url, 0, 20.0).get("models")


def test_a_redirect_is_named_and_not_followed(raw, monkeypatch):
    monkeypatch.setenv("AUDIT_API_KEY", KEY)
    target = f"https://elsewhere.example/v1?key={KEY.replace('-', '%2D')}".encode()
    url = raw(b"HTTP/1.1 307 T\r\nLocation: " + target + b"\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(UsageError, match="redirects to https://elsewhere") as failed:
        Endpoint(url, 2, 5.0).get("models")
    assert "key=…; give the address that answers" in str(failed.value)
