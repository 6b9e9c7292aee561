"""Send requests to an HTTP endpoint: at a limited rate, and again after transient failures.

An answer is limited in bytes and in time: a server may drip, or never end.

The key, if one is needed, is read from the environment variable AUDIT_API_KEY; it is sent, and
never written or shown.
"""

from __future__ import annotations

import ipaddress
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from audit.core.errors import UsageError, first_line
from audit.core.files import parsed
from audit.core.masking import API_KEY, api_key, as_stored, without_key
from audit.core.visible import each_text

if TYPE_CHECKING:
    import ssl

    import httpx

LARGEST = 1 << 26  # bytes of an answer, unpacked
# HTTP statuses after which a retry may succeed; those above 511 are of proxies before the server
TRANSIENT = (408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
REFUSALS = (400, 404, 405, 422, 500, 501)  # HTTP statuses of a request that is not supported
_INVALID = "validation error"  # how a server says with HTTP 500 that it knows no such request
_UNLISTED = (*REFUSALS, 401, 403)  # of a request for what a server need not offer: all by GET
_SHORTEST, _LONGEST = 0.5, 30.0  # seconds between two tries, unless the server names more
_PATIENCE = 600.0  # seconds; a server that requests a longer wait counts as failed
_SHOWN = 160  # characters of a server's error message

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_ADVICE = {
    400: "where it is too long for the server, give a smaller as_is:context=TOKENS",
    401: f"give its key in the environment variable {API_KEY}",
    403: f"give its key in the environment variable {API_KEY}",
    404: "give the address that /completions follows, such as http://127.0.0.1:8000/v1, and the "
    "model as the server calls it with as_is:served=NAME",
    429: "give a lower as_is:rate=REQUESTS_PER_SECOND and run again; stored answers are reused",
}
_LATER = "look into the server's log and run again; stored answers are reused"

T = TypeVar("T")
Post = Callable[[str, dict[str, Any]], dict[str, Any]]


class RefusedError(Exception):
    """The server does not support this request; the message is one line."""


def is_url(source: str) -> bool:
    """Return whether a model is named by its URL."""
    return source.lower().startswith(("http://", "https://"))


def address(source: str) -> str:
    """Normalise the URL that /completions follows: no slash at its end, /v1 for a bare host.

    Raises UsageError for anything else, and for a URL with credentials.
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
    """Join an endpoint's URL and a model's name to one address; without a name, the URL."""
    return f"{url}/models/{model}" if model else url


def url_of(address: str, model: str | None) -> str:
    """Extract the URL from a result of `address_of`."""
    return address.removesuffix(f"/models/{model}")


def _is_loopback(host: str) -> bool:
    """Check whether a host is this machine, which is reached without a proxy."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass
class Pace:
    """At most `rate` requests per second, evenly spaced; None: no limit."""

    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _ready: float = field(default=-math.inf, init=False)

    def wait(self) -> None:
        """Wait until the next request may be sent."""
        if self.rate is None:
            return
        while (left := self._ready - self.clock()) > 0:
            self.sleep(left)
        self._ready = self.clock() + 1 / self.rate


@dataclass(frozen=True)
class Endpoint:
    """Where a model is served. url: as `address` gives it. timeout: seconds for each whole answer.

    retries: how often a request is sent again after a timeout, a lost connection or a TRANSIENT
        status: after 0.5, 1, 2 … seconds, or later if the server names a longer wait.
    """

    url: str
    retries: int
    timeout: float
    pace: Pace = field(default_factory=Pace, compare=False)

    @contextmanager
    def connected(self) -> Iterator[Post]:
        """Open a connection: post(path, fields) gives the answer, a JSON object.

        Raises RefusedError where the server does not support the request, and UsageError where it
        fails after all retries.
        """
        with self._client() as client:
            yield lambda path, fields: self._answer(client, "POST", path, fields)

    def get(self, path: str) -> dict[str, Any]:
        """Request an object by GET. Raises as `connected` does; a server that offers none, or does
        not tell, is not asked again.
        """
        with self._client() as client:
            return self._answer(client, "GET", path, None)

    def _client(self) -> httpx.Client:
        import httpx  # with its own command line it takes a fifth of a second

        headers = {**_credentials(), "Accept-Encoding": "identity"}
        here = _is_loopback(urlsplit(self.url).hostname or "")
        try:
            return httpx.Client(
                headers=headers, timeout=self.timeout, verify=_trusted(), trust_env=not here
            )
        except (ImportError, ValueError) as error:  # of the proxies that the environment names
            names = [name for name in _PROXIES if os.environ.get(name)]
            raise UsageError(
                f"{self.url}: the proxy in {' or '.join(names)} cannot be used "
                f"({first_line(error)}); unset it, or name an http:// proxy"
            ) from None

    def _answer(
        self, client: httpx.Client, method: str, path: str, fields: dict[str, Any] | None
    ) -> dict[str, Any]:
        where = f"{self.url}/{path}"
        for tries in count(1):
            self.pace.wait()
            answer = _sent(client, method, where, fields)
            if not isinstance(answer, _Failure):
                return answer
            own = min(_SHORTEST * 2.0 ** min(tries - 1, 60), _LONGEST)
            wait = max(own, answer.wait or 0.0)
            if not answer.transient or tries > self.retries or wait > _PATIENCE:
                times = f" (tried {tries} times)" if tries > 1 else ""
                error = RefusedError if answer.refusal else UsageError
                raise error(f"{where}: {answer.problem}{times}; {answer.advice}")
            self.pace.sleep(wait)
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Failure:
    """An answer is missing. wait: seconds that the server requests before a retry."""

    problem: str
    advice: str
    transient: bool = True
    refusal: bool = False
    wait: float | None = None


@cache
def _trusted() -> ssl.SSLContext:
    """Load the trusted certificates, once for all clients: it takes 50 ms."""
    import httpx

    return httpx.create_ssl_context()


def _sent(
    client: httpx.Client, method: str, where: str, fields: dict[str, Any] | None
) -> dict[str, Any] | _Failure:
    import httpx

    seconds = client.timeout.read or math.inf
    try:
        response = _within(seconds, lambda: _received(client, method, where, fields, seconds))
    except (httpx.TimeoutException, TimeoutError):
        return _Failure(
            f"did not answer within {seconds:g} s",
            "give a longer as_is:timeout=SECONDS and run again; stored answers are reused",
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return _Failure(
            f"cannot be reached ({_line(str(error))})",
            "check that the server runs, then run again; stored answers are reused",
        )
    if isinstance(response, _Failure):
        return response
    status = response.status_code
    if response.has_redirect_location:
        target = _line(response.headers["Location"])
        advice = "give the address that answers, if you trust it; a key is not sent on"
        return _Failure(f"HTTP {status}: redirects to {target}", advice, False)
    if status != 200:
        problem = _problem(response)
        refusal = status in (_UNLISTED if method == "GET" else REFUSALS)
        final = refusal and (method == "GET" or _INVALID in problem)
        transient = status in TRANSIENT and not final
        advice = _ADVICE.get(status, _LATER)
        return _Failure(problem, advice, transient, refusal, _retry_after(response))
    try:
        answer = each_text(parsed(response.content.decode("utf-8-sig")), as_stored)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return _Failure("answers with no JSON object", "is this the right address?", False)
    return answer


def _received(
    client: httpx.Client, method: str, where: str, fields: dict[str, Any] | None, seconds: float
) -> httpx.Response | _Failure:
    """Read a whole answer, of limited size and time, as it arrives.

    Nothing is unpacked: the length of a packed answer does not bound its content.
    """
    import httpx

    end, parts, size = time.monotonic() + seconds, [], 0
    with client.stream(method, where, json=fields) as response:
        coding = response.headers.get("Content-Encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            problem = f"answers in the coding {_line(coding)!r}, which was not asked for"
            return _Failure(problem, "switch off compression at the server or its proxy", False)
        for part in response.iter_raw():
            size += len(part)
            if size > LARGEST:
                problem = f"answers with more than {LARGEST >> 20} MB"
                return _Failure(problem, "is this the right address?", False)
            if time.monotonic() > end:
                raise TimeoutError
            parts.append(part)
    names = ("Location", "Retry-After")
    kept = {name: response.headers[name] for name in names if name in response.headers}
    return httpx.Response(response.status_code, headers=kept, content=b"".join(parts))


def _within(seconds: float, do: Callable[[], T]) -> T:
    """Wait for a result; raise TimeoutError, and leave the thread alone, where it takes longer.

    A limit on each read alone would let a server drip its headers for ever.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(do())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result(min(seconds, threading.TIMEOUT_MAX))


def _credentials() -> dict[str, str]:
    key = api_key()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{API_KEY}: has characters that no key contains; copy it again")
    return {"Authorization": f"Bearer {key}"}


def _retry_after(response: httpx.Response) -> float | None:
    """Read the seconds to wait, from the header Retry-After; None without one."""
    text = response.headers.get("Retry-After", "").strip()
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(wait, 0.0) if math.isfinite(wait) else None


def _problem(response: httpx.Response) -> str:
    """Describe the HTTP status and the beginning of the server's error message."""
    try:
        body = parsed(response.content.decode("utf-8-sig"))
        error = body.get("error", body)
        if isinstance(error, dict):  # FastAPI, below most servers, has a field of its own
            error = error.get("message") or error.get("detail") or ""
        text = str(error)
    except (ValueError, AttributeError):
        text = ""
    return f"HTTP {response.status_code}" + (f" ({_line(text)})" if text.strip() else "")


def _line(text: str) -> str:
    """Shorten a server's message to one line, without the key that it may repeat."""
    words = " ".join(without_key(text).split())
    return words if len(words) <= _SHOWN else words[:_SHOWN] + "…"
