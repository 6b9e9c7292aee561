"""The key of an endpoint is in no message, however a server writes it."""

from __future__ import annotations

import html
import itertools
import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.masking import API_KEY, without_key

KEY = 'sk-9f/2c+7"7e1<&=Zq'
WAYS = {
    "plain": KEY,
    "upper case": KEY.upper(),
    "percent": quote(KEY, safe=""),
    "percent, lower case": quote(KEY, safe="").lower(),
    "percent of every sign": "".join(f"%{ord(c):02X}" for c in KEY),
    "percent twice": quote(quote(KEY, safe=""), safe=""),
    "form": quote_plus(KEY),
    "JSON": json.dumps(KEY),
    "JSON twice": json.dumps(json.dumps(KEY)),
    "JSON with slashes": json.dumps(KEY).replace("/", "\\/"),
    "JSON in numbers": "".join(f"\\u{ord(c):04x}" for c in KEY),
    "C": "".join(f"\\x{ord(c):02x}" for c in KEY),
    "HTML": html.escape(KEY),
    "HTML in numbers": "".join(f"&#{ord(c)};" for c in KEY),
    "HTML in hexadecimal": "".join(f"&#x{ord(c):X};" for c in KEY),
    "hexadecimal": KEY.encode().hex(),
    "Base64": b64encode(KEY.encode()).decode(),
    "Base64 of the header": b64encode(f"Bearer {KEY}".encode()).decode(),
    "Base64 of a pair": b64encode(f"ab:{KEY}:x".encode()).decode(),
    "Base64 for URLs": urlsafe_b64encode(f"user:{KEY}".encode()).decode(),
    "Base64, percent": quote(b64encode(f"u:{KEY}".encode()).decode(), safe=""),
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, f" {KEY}\n")


def test_no_way_shows_it() -> None:
    for way, written in WAYS.items():
        shown = without_key(f"no such key ({written}); ask again")
        bare = shown.replace('"', "").replace("\\", "")
        assert bare == "no such key (…); ask again", way


def test_base64_of_it_within_anything() -> None:
    for before, after in itertools.product(range(5), range(4)):
        whole = b64encode(b"\xff" * before + KEY.encode() + b"\xfe" * after).decode()
        assert without_key(f"got {whole}!") == "got …!", (before, after)


@given(st.text("abc /%&;\\u0", max_size=60))
def test_other_text_is_left_alone(text: str) -> None:
    assert without_key(text) == text


def test_without_a_key_nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY)
    assert without_key(KEY) == KEY
