"""What a policy is."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from audit.core.spans import Span


class Policy(ABC):
    """Says which characters of a text are private. Subclasses are final frozen dataclasses.

    argument: what a plan writes after the policy's name and a colon; empty if nothing.
    argument_needed: whether it may be left out.
    options: the keys that may follow, besides `miss`.
    """

    argument: ClassVar[str] = ""
    argument_needed: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Policy:
        """Made from a plan's words; an empty argument was not given. Raises UsageError."""
        return cls()

    @abstractmethod
    def __call__(self, text: str) -> list[Span]:
        """The private spans: sorted, disjoint, none empty. Equal texts have equal spans."""

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        """The private spans of each text."""
        return [self(text) for text in texts]

    @property
    @abstractmethod
    def label(self) -> str:
        """How a plan shows it: files by name, without the folders they lie in."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of everything that determines its spans, as hexadecimal digits."""


def digest_of(*parts: str) -> str:
    """SHA-256 of the parts, where one ends and the next begins included."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
