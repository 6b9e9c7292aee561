"""Servers that hurry or pack: waits of one's own, no unpacking."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from audit.core.errors import UsageError
from audit.models.endpoint import http
from audit.models.endpoint.http import Endpoint, Pace, RefusedError
from audit.models.endpoint.session import _description

Answers = Callable[..., str]


@pytest.fixture
def answers() -> Iterator[Answers]:
    """answers(bytes, …): the URL of a server that gives these answers in order, the last again."""
    listening = socket.create_server(("127.0.0.1", 0))

    def start(*given: bytes) -> str:
        def serve() -> None:
            for place in range(100):
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(given[min(place, len(given) - 1)])

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    yield start
    listening.close()


def answer(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("status", [520, 522, 524, 529])
def test_failure_of_proxy_is_tried_again(answers: Answers, status: int) -> None:
    slept: list[float] = []
    url = answers(answer(status), answer(200, b'{"data": []}'))
    assert Endpoint(url, 1, 5.0, Pace(None, sleep=slept.append)).get("models") == {"data": []}
    assert slept == [0.5]


def test_own_wait_is_the_least(answers: Answers) -> None:
    slept: list[float] = []
    busy = answer(429, b"{}", "Retry-After: 0")
    url = answers(busy, busy, busy, answer(200))
    Endpoint(url, 3, 5.0, Pace(None, sleep=slept.append)).get("models")
    assert slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500, 501])
def test_unlisted_models_are_asked_for_once(answers: Answers, status: int) -> None:
    told = answer(status)
    slept: list[float] = []
    endpoint = Endpoint(answers(told), 5, 5.0, Pace(None, sleep=slept.append))
    with pytest.raises(RefusedError):
        endpoint.get("models")
    assert _description(endpoint, "mine") == {"id": "mine"}
    with pytest.raises(UsageError):
        _description(endpoint, None)
    assert not slept


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "zstd"])
def test_packed_answer_is_refused_unread(answers: Answers, coding: str) -> None:
    body = gzip.compress(b"{}")
    url = answers(answer(200, body, f"Content-Encoding: {coding}"))
    with pytest.raises(UsageError, match="coding"):
        Endpoint(url, 3, 5.0).get("models")


def test_request_asks_for_no_coding(monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint("http://127.0.0.1:1/v1", 0, 1.0)._client() as client:
        assert client.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_loopback_is_reached_without_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    Endpoint(f"http://{host}:1/v1", 0, 1.0)._client().close()


def test_unusable_proxy_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "nonsense://127.0.0.1:1")
    with pytest.raises(UsageError, match="all_proxy"):
        Endpoint("http://models.example/v1", 0, 1.0)._client()


@pytest.mark.parametrize(
    "after",
    ["1e400", "9" * 400, "Mon, 01 Jan 9999999999 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"],
)
def test_impossible_wait_is_not_an_error(after: str) -> None:
    wait = http._retry_after(httpx.Response(429, headers={"Retry-After": after}))
    assert wait is None or wait > http._PATIENCE
