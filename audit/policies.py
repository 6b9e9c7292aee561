"""Policies: text → the character spans that are private."""

from __future__ import annotations

import re
from collections.abc import Callable

from audit.errors import UsageError, did_you_mean

Span = tuple[int, int]
Policy = Callable[[str], list[Span]]


def digits(text: str) -> list[Span]:
    """Every decimal digit is private."""
    return [match.span() for match in re.finditer(r"\d", text)]


POLICIES: dict[str, Policy] = {"digits": digits}


def named(name: str) -> Policy:
    """The policy of that name. Raises UsageError for an unknown one."""
    if name not in POLICIES:
        raise UsageError(f"unknown policy {name!r}{did_you_mean(name, list(POLICIES))}")
    return POLICIES[name]
