"""Hides the key of an endpoint in messages, however a server writes it there."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterator
from functools import lru_cache
from html.entities import codepoint2name

API_KEY = "AUDIT_API_KEY"
_SECRET = 12  # characters of a key; servers without one are given words such as EMPTY
_LEAST = 8  # characters of Base64 that show something of a key
_SIDE = r"[\w+/=%-]"  # what may belong to the same Base64


def api_key() -> str:
    """Read the key from its environment variable; "" without one."""
    return os.environ.get(API_KEY, "").strip()


def without_key(text: str) -> str:
    """Replace the key in a text: as it is, percent-encoded, escaped as in JSON or HTML, in
    hexadecimal digits, in Base64, in any of their mixtures, in either case."""
    key = api_key()
    return _pattern(key).sub("…", text) if key else text


def as_stored(text: str) -> str:
    """Replace the key in a text of an answer, which is stored and shown in reports."""
    return without_key(text) if len(api_key()) >= _SECRET else text


@lru_cache(maxsize=1)
def _pattern(key: str) -> re.Pattern[str]:
    # from where a run begins, so that a text without the key is searched in a time like its length
    before = f"(?:(?<!{_SIDE}){_SIDE}*)?"
    encoded = [f"{before}{_spelled(core)}{_SIDE}*" for core in _in_base64(key.encode())]
    return re.compile("|".join([*encoded, _spelled(key), key.encode().hex()]), re.IGNORECASE)


def _spelled(text: str) -> str:
    """Return a pattern of a text in which each character is written in any way of its own."""
    return r"(?:(?<!\\)\\+)?" + r"\\*".join(map(_character, text))


def _character(character: str) -> str:
    number = ord(character)
    ways = [
        re.escape(character),
        f"%(?:25)*{number:02x}",
        rf"u00{number:02x}",
        rf"x{number:02x}",
        f"&#0*{number};",
        f"&#x0*{number:x};",
    ]
    ways += [f"&{name};" for name in [codepoint2name.get(number)] if name]
    return f"(?:{'|'.join(ways)})"


def _in_base64(key: bytes) -> Iterator[str]:
    """List the characters of Base64 that depend on the key alone, for each possible beginning."""
    for before in range(3):
        whole = b64encode(bytes(before) + key).decode().rstrip("=")
        first = -(-8 * before // 6)
        core = whole[first : (before + len(key)) * 8 // 6]
        if len(core) >= _LEAST:
            yield core
            if "+" in core or "/" in core:
                yield core.translate(str.maketrans("+/", "-_"))
