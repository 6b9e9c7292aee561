"""The HTTP side: pace, retries, timeouts, keys; every failure is one line."""

from __future__ import annotations

import contextlib
import gzip
import itertools
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
from audit.models.endpoint.session import _description
from tests.refusals import refusals

OVER = "Wed, 21 Oct 2015 07:28:00 GMT"
NO_WAITS = ("soon", "nan", "inf", "1e999", "", "Mon, 01 Jan 9999999999 00:00:00 GMT")
PASSING = [
    *(({"fail": status, "times": 2}, [0.5, 1.0]) for status in (408, 429, 500, 502, 503, 504)),
    *(({"fail": 429, "times": 1, "after": after}, [0.5]) for after in NO_WAITS),
    ({"fail": 429, "times": 1, "after": "7"}, [7.0]),
    ({"fail": 429, "times": 1, "after": OVER}, [0.5]),
]
LASTING = [
    *(({"fail": status}, 2, []) for status in (400, 401, 403, 404, 422)),
    ({"fail": 429, "after": "86400"}, 2, []),  # nobody waits for a day
    ({"fail": 429, "after": "Fri, 31 Dec 9999 23:59:59 -2359"}, 2, []),
    ({"fail": 503}, 0, []),
    ({"fail": 502}, 9, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
]


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
def test_no_stretch_exceeds_its_rate(rate, work, early):
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


def test_retries_are_paced_too(server, clock):
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


def test_passing_failures_are_retried_after_due_waits(server, ask, clock):
    for switches, waits in PASSING:
        server.switch(**switches)
        clock.slept.clear()
        assert ask()["choices"], switches
        assert (clock.slept, len(server.seen["asked"])) == (waits, len(waits) + 1), switches


def test_lasting_failures_end_in_one_line(server, ask, clock):
    for switches, retries, waits in LASTING:
        server.switch(**switches)
        clock.slept.clear()
        line = told(ask, retries=retries)
        assert f"HTTP {switches['fail']} (it failed)" in line
        assert ("tried" in line) == bool(waits)
        assert (clock.slept, len(server.seen["asked"])) == (waits, len(waits) + 1), switches


def test_a_busy_server_names_tries_and_rate(server, ask, clock):
    server.switch(fail=429, said="slow\ndown")
    line = told(ask, retries=5)
    assert "HTTP 429 (slow down) (tried 6 times)" in line and "as_is:rate=" in line


def test_a_named_time_is_waited_for(server, ask, clock):
    server.switch(fail=503, times=1, after=formatdate(time.time() + 20, usegmt=True))
    ask()
    assert 15 < clock.slept[0] <= 20


def test_a_server_that_hangs(server, ask, clock):
    server.switch(hang=0.6)
    line = told(ask, timeout=0.1, retries=1)
    assert "did not answer within 0.1 s (tried 2 times)" in line
    assert "as_is:timeout=SECONDS" in line
    time.sleep(0.7)  # it answers into the void before other tests ask it


def test_nobody_is_there(ask, clock):
    assert "cannot be reached" in told(ask, url="http://127.0.0.1:9/v1")
    assert clock.slept == [0.5, 1.0]


def test_an_answer_without_an_object_is_refused(server, ask):
    for garbage in ("<html>", "[1]", '"text"', "{"):
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
    monkeypatch.delenv("AUDIT_API_KEY")
    told(ask)
    assert server.seen["keys"][-2:] == [f"Bearer {KEY}", ""]


def test_a_key_for_no_header_is_refused(ask, monkeypatch):
    for key in ("schlüssel", "two\nlines", "\x07"):
        monkeypatch.setenv("AUDIT_API_KEY", key)
        with pytest.raises(UsageError, match="AUDIT_API_KEY: has characters") as failed:
            ask()
        assert key not in str(failed.value)


# addresses


def test_addresses_are_read_with_their_version():
    for url, read in (
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("https://example.org/", "https://example.org/v1"),
        ("https://example.org/models/a/openai", "https://example.org/models/a/openai"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ):
        assert is_url(url) and address(url) == address(read) == read
    assert not any(map(is_url, ("out", "hf:name", "embedded", "/http://", "httpfolder")))


def test_broken_addresses_are_refused_without_credentials():
    broken = ("http://", "http:///v1", "http://h:99999/v1", "http://h:x/", "http://h/v1?k=1")
    refusals(address, [(url, "http://127.0.0.1:8000/v1") for url in (*broken, "http://h/#a")])
    for url in ("http://user:pass@host/v1", "https://pass@host"):
        with pytest.raises(UsageError, match="AUDIT_API_KEY") as failed:
            address(url)
        assert "pass" not in str(failed.value)


@given(st.text("abc/-."), st.none() | st.text("abc/-.", min_size=1))
def test_a_models_address_gives_its_url_back(path, model):
    url = f"http://host/{path}"
    assert url_of(address_of(url, model), model) == url


# servers that hurry, pack, never end, or send elsewhere


@pytest.fixture
def raw(monkeypatch):
    """raw(answer, …, piece=…, pause=…): the URL of a server that sends these answers in turn, the
    last again, and after each its piece for ever."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "AUDIT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(answers, piece, pause):
        for place in itertools.count():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), connection:
                connection.recv(1 << 16)
                connection.sendall(answers[min(place, len(answers) - 1)])
                while piece:
                    connection.sendall(piece)
                    time.sleep(pause)

    def start(*answers, piece=b"", pause=0.0):
        threading.Thread(target=serve, args=(answers, piece, pause), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    yield start
    listening.close()


OK = b"HTTP/1.1 200 OK\r\n"


def answer(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def hurried(url: str, retries: int, clock: Clock) -> Endpoint:
    return Endpoint(url, retries, 5.0, Pace(None, clock, clock.sleep))


def test_a_failing_proxy_is_tried_again(raw, clock):
    listed = answer(200, b'{"data": []}')
    url = raw(*(one for status in (520, 522, 524, 529) for one in (answer(status), listed)))
    for _ in range(4):
        assert hurried(url, 1, clock).get("models") == {"data": []}
    assert clock.slept == [0.5] * 4


def test_own_wait_is_the_least(raw, clock):
    busy = answer(429, b"{}", "Retry-After: 0")
    hurried(raw(busy, busy, busy, answer(200)), 3, clock).get("models")
    assert clock.slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500, 501])
def test_unlisted_models_are_asked_for_once(raw, clock, status):
    endpoint = hurried(raw(answer(status)), 5, clock)
    with pytest.raises(RefusedError):
        endpoint.get("models")
    assert _description(endpoint, "mine") == {"id": "mine"}
    with pytest.raises(UsageError):
        _description(endpoint, None)
    assert not clock.slept


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "zstd"])
def test_a_packed_answer_is_refused_unread(raw, coding):
    url = raw(answer(200, gzip.compress(b"{}"), f"Content-Encoding: {coding}"))
    endpoint = Endpoint(url, 3, 5.0)
    with pytest.raises(UsageError, match="coding"):
        endpoint.get("models")
    with endpoint._client() as client:
        assert client.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    "head",
    [
        OK + b"Content-Length: 900000\r\n\r\n",
        pytest.param(OK + b"X-Slow: ", marks=pytest.mark.slow),
    ],
)
def test_a_server_that_drips_is_left(raw, head):
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"did not answer within 0\.5 s; give a longer"):
        Endpoint(raw(head, piece=b"1", pause=0.05), 0, 0.5).get("models")
    assert time.monotonic() - began < 5


def test_an_endless_answer_is_cut(raw, monkeypatch):
    monkeypatch.setattr(http, "LARGEST", 3 << 20)
    url = raw(OK + b"Connection: close\r\n\r\n", piece=b"[" * (1 << 16))
    with pytest.raises(UsageError, match="answers with more than 3 MB; is this the right"):
        Endpoint(url, 3, 20.0).get("models")


def test_a_redirect_is_named_and_not_followed(raw, monkeypatch):
    monkeypatch.setenv("AUDIT_API_KEY", KEY)
    target = f"https://elsewhere.example/v1?key={KEY.replace('-', '%2D')}".encode()
    url = raw(b"HTTP/1.1 307 T\r\nLocation: " + target + b"\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(UsageError, match="redirects to https://elsewhere") as failed:
        Endpoint(url, 2, 5.0).get("models")
    assert "key=…; give the address that answers" in str(failed.value)


# what the environment names


def test_loopback_is_reached_without_proxy(monkeypatch):
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    for host in ("127.0.0.1", "localhost", "[::1]", "127.8.8.8"):
        Endpoint(f"http://{host}:1/v1", 0, 1.0)._client().close()


def test_an_unusable_proxy_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("all_proxy", "nonsense://127.0.0.1:1")
    with pytest.raises(UsageError, match="all_proxy"):
        Endpoint("http://models.example/v1", 0, 1.0)._client()
