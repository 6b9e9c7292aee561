"""A policy marks the private characters of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from audit.core.digest import digest_of_json
from audit.core.spans import Span


class Policy(ABC):
    """Marks the private characters of a text. Subclasses are final frozen dataclasses.

    argument: name of what a plan writes after the policy's name and a colon; "" for none.
    argument_needed: whether the argument is required.
    options: names of further keys, besides `miss`.
    """

    argument: ClassVar[str] = ""
    argument_needed: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Policy:
        """Make a policy from a plan's words; "" is a missing argument. Raises UsageError."""
        return cls()

    @abstractmethod
    def __call__(self, text: str) -> list[Span]:
        """Return the private spans: sorted, disjoint, not empty, and equal for equal texts."""

    def many(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return the private spans of each text."""
        return [self(text) for text in texts]

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the policy in reports, with file names but without folders."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of everything that determines its spans, as hexadecimal digits."""


def digest_of(*parts: str) -> str:
    """Compute SHA-256 of the parts, the boundaries between them included."""
    return digest_of_json(parts)
