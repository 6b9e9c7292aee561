"""Secrets, coins and cases by hand, to join evidence with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space, digits
from audit.findings import Case

NAN = float("nan")


def pairs(
    values: Iterable[tuple[str, str]], space: Space | None, kind: str = "code", **more: Any
) -> list[Secret]:
    """Two candidates of each owner u0, u1, …; more: `copies` in turn, `prefix`, `suffix`."""
    copies = more.get("copies", (4,))
    around = more.get("prefix", "#"), more.get("suffix", ".")
    return [
        Secret(kind, around[0], value, around[1], space, copies[i % len(copies)], f"u{i}", slot)
        for i, both in enumerate(values)
        for slot, value in enumerate(both)
    ]


def codes(n: int, size: int = 5, **more: Any) -> list[Secret]:
    """Two codes of each owner that nobody else has."""
    values = [(f"{2 * i:0{size}}", f"{2 * i + 1:0{size}}") for i in range(n)]
    return pairs(values, digits(size), **more)


def records(texts: int | Sequence[str]) -> list[Secret]:
    """A record is one value in both slots; a number: of so many different texts."""
    texts = [f"text {i}" for i in range(texts)] if isinstance(texts, int) else texts
    return pairs(
        [(text, text) for text in texts], None, "record", copies=(1,), prefix="", suffix=""
    )


def one_value(n: int) -> list[Secret]:
    """Codes of a space of one value."""
    return pairs([("7", "7")] * n, Space((("7",),)))


def case(secrets: Sequence[Secret], present: Sequence[Any], slot: Any = 0, **more: Any) -> Case:
    """Join secrets with coins; slot: of each owner, or of all."""
    names = [f"u{i}" for i in range(len(present))]
    slots = np.broadcast_to(slot, len(names)).tolist()
    coins = Coins(
        dict(zip(names, map(bool, present), strict=True)), dict(zip(names, slots, strict=True))
    )
    options: dict[str, Any] = {
        "attack": "extraction", "delta": 0.0, "seed": 0, "access": Access.DISTRIBUTION, **more
    }  # fmt: skip
    return Case(secrets=tuple(secrets), coins=coins, **options)


def half(n: int) -> list[bool]:
    return [i < n // 2 for i in range(n)]
