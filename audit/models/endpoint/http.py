"""An HTTP endpoint of others: asked no faster than it is allowed, and again where it fails.

The key, if one is needed, stands in the environment variable AUDIT_API_KEY; it is sent, and never
written or shown.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx

from audit.core.errors import UsageError

API_KEY = "AUDIT_API_KEY"
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses that may be others the next time
REFUSALS = (400, 404, 405, 422, 500, 501)  # HTTP statuses of what a server does not know
_SHORTEST, _LONGEST = 0.5, 30.0  # seconds between two tries, where the server names none
_PATIENCE = 600.0  # seconds: a server that asks for more is not waited for
_SHOWN = 160  # characters of what a server says of an error

_ADVICE = {
    400: "where it is too long for the server, give a smaller as_is:context=TOKENS",
    401: f"give its key in the environment variable {API_KEY}",
    403: f"give its key in the environment variable {API_KEY}",
    404: "give the address that /completions follows, such as http://127.0.0.1:8000/v1, and the "
    "model as the server calls it with as_is:served=NAME",
    429: "give a lower as_is:rate=REQUESTS_PER_SECOND and run again; what was answered is kept",
}
_LATER = "look into the server's log and run again; what was answered is kept"

Post = Callable[[str, dict[str, Any]], dict[str, Any]]


class RefusedError(Exception):
    """The server will not answer this request, however often it is sent; one line says why."""


def is_url(source: str) -> bool:
    """Whether a model is named by its address."""
    return source.lower().startswith(("http://", "https://"))


def address(source: str) -> str:
    """The address that /completions follows, without a slash at its end; of a bare host, its /v1.

    Raises UsageError for what is no such address, or holds credentials.
    """
    try:
        parts = urlsplit(source)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    advice = "write an address such as http://127.0.0.1:8000/v1"
    if not host:
        raise UsageError(f"{source}: has no host, or no valid port; {advice}")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"http…@{host}: credentials in an address end up in histories and logs; give the key "
            f"in the environment variable {API_KEY}"
        )
    if parts.query or parts.fragment:
        raise UsageError(f"{parts.scheme}://{host}: has a query or a fragment; {advice}")
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def address_of(url: str, model: str | None) -> str:
    """The address of one model, whose last part is its name; of a model without one, the URL."""
    return f"{url}/models/{model}" if model else url


def url_of(address: str, model: str | None) -> str:
    """The URL that `address_of` was given."""
    return address.removesuffix(f"/models/{model}")


@dataclass
class Pace:
    """At most `rate` requests a second, evenly spaced; None: as fast as they are answered."""

    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _ready: float = field(default=-math.inf, init=False)

    def wait(self) -> None:
        """Returns when the next request may be sent."""
        if self.rate is None:
            return
        while (left := self._ready - self.clock()) > 0:
            self.sleep(left)
        self._ready = self.clock() + 1 / self.rate


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served. url: as `address` gives it. timeout: seconds for each answer.

    retries: how often a request is sent again after a timeout, a lost connection or one of the
        TRANSIENT statuses: after as long as the server says, else 0.5, 1, 2 … seconds.
    """

    url: str
    retries: int
    timeout: float
    pace: Pace = field(default_factory=Pace, compare=False)

    @contextmanager
    def connected(self) -> Iterator[Post]:
        """A connection: post(path, fields) gives the answer, a JSON object.

        Raises RefusedError where the server will not answer, UsageError where it cannot, after all
        retries.
        """
        with self._client() as client:
            yield lambda path, fields: self._answer(client, "POST", path, fields)

    def get(self, path: str) -> dict[str, Any]:
        """What the server tells of itself. Raises as `connected` does."""
        with self._client() as client:
            return self._answer(client, "GET", path, None)

    def _client(self) -> httpx.Client:
        return httpx.Client(headers=_credentials(), timeout=self.timeout)

    def _answer(
        self, client: httpx.Client, method: str, path: str, fields: dict[str, Any] | None
    ) -> dict[str, Any]:
        where = f"{self.url}/{path}"
        for tries in count(1):
            self.pace.wait()
            answer = _sent(client, method, where, fields)
            if not isinstance(answer, _Failure):
                return answer
            wait = _delay(tries) if answer.wait is None else answer.wait
            if not answer.transient or tries > self.retries or wait > _PATIENCE:
                asked = f" (asked {tries} times)" if tries > 1 else ""
                error = RefusedError if answer.refusal else UsageError
                raise error(f"{where}: {answer.trouble}{asked}; {answer.advice}")
            self.pace.sleep(wait)
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Failure:
    """Why there is no answer. wait: seconds after which the server wants to be asked again."""

    trouble: str
    advice: str
    transient: bool = True
    refusal: bool = False
    wait: float | None = None


def _sent(
    client: httpx.Client, method: str, where: str, fields: dict[str, Any] | None
) -> dict[str, Any] | _Failure:
    try:
        response = client.request(method, where, json=fields)
    except httpx.TimeoutException:
        return _Failure(
            f"did not answer within {client.timeout.read:g} s",
            "give a longer as_is:timeout=SECONDS and run again; what was answered is kept",
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return _Failure(
            f"cannot be reached ({_line(str(error))})",
            "see that the server runs and run again; what was answered is kept",
        )
    status = response.status_code
    if status != 200:
        advice = _ADVICE.get(status, _LATER)
        transient, refusal = status in TRANSIENT, status in REFUSALS
        return _Failure(_trouble(response), advice, transient, refusal, _asked(response))
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return _Failure("answers with no JSON object", "is this the right address?", False)
    return answer


def _credentials() -> dict[str, str]:
    key = os.environ.get(API_KEY, "").strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{API_KEY}: holds characters that no key has; copy it again")
    return {"Authorization": f"Bearer {key}"}


def _delay(tries: int) -> float:
    return min(_SHORTEST * 2.0 ** min(tries - 1, 60), _LONGEST)


def _asked(response: httpx.Response) -> float | None:
    """Seconds that the server asks to wait for; None where it does not say."""
    text = response.headers.get("Retry-After", "").strip()
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return max(wait, 0.0) if math.isfinite(wait) else None


def _trouble(response: httpx.Response) -> str:
    """HTTP status and what the server says of it, as far as that is short."""
    try:
        told = response.json()
        error = told.get("error", told)
        text = str(error.get("message", "") if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        text = ""
    return f"HTTP {response.status_code}" + (f" ({_line(text)})" if text.strip() else "")


def _line(text: str) -> str:
    """A server's words on one line, cut, without the key that it may repeat."""
    key = os.environ.get(API_KEY, "").strip()
    hidden = text.replace(key, "…") if key else text
    words = " ".join(hidden.split())
    return words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
