"""The policy `digits`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

from audit.core.policy import Policy, digest_of
from audit.core.spans import Span

_DIGIT = re.compile(r"\d")


@final
@dataclass(frozen=True)
class Digits(Policy):
    """Every decimal digit, each a span of its own."""

    def __call__(self, text: str) -> list[Span]:
        return [match.span() for match in _DIGIT.finditer(text)]

    @property
    def label(self) -> str:
        return "digits"

    @property
    def digest(self) -> str:
        return digest_of("digits", _DIGIT.pattern)
