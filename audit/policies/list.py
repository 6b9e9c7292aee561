"""The policy `list`: literals from a file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, final

from audit.core.errors import UsageError
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, disjoint
from audit.core.time_limit import limited
from audit.policies._lines import numbered

SECONDS = 60.0  # for one text

_PIECE = re.compile(r"\w+|\W")
_INSIDE_WORD = re.compile(r"\B(?=\w)")


@final
@dataclass(frozen=True)
class Listed(Policy):
    """A file's literals, one per line, as whole words and case-sensitive: list:FILE.

    Overlapping literals are one span.
    file: the file's name, without its folder.
    """

    argument: ClassVar[str] = "FILE"

    file: str
    literals: frozenset[str]

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Listed:
        literals = frozenset(line.strip() for _, line in numbered(argument, "list"))
        if not literals:
            raise UsageError(f"policy list: {argument} is empty; write one literal per line")
        return cls(Path(argument).name, literals)

    @cached_property
    def _lengths(self) -> dict[str, set[int]]:
        """Map a first piece to the lengths of the literals that begin with it.

        So a text is read once, whatever the number of literals.
        """
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for literal in self.literals:
            lengths[_first_piece(literal)].add(len(literal))
        return dict(lengths)

    def __call__(self, text: str) -> list[Span]:
        what = f"policy {self.label}: a text of {len(text)} signs"
        with limited(SECONDS, what, "cut the text, or list fewer literals that begin alike"):
            return disjoint(self._found(text))

    def _found(self, text: str) -> Iterator[Span]:
        for piece in _PIECE.finditer(text):
            start = piece.start()
            for length in self._lengths.get(piece.group(), ()):
                end = min(start + length, len(text))
                if text[start:end] in self.literals and not _INSIDE_WORD.match(text, end):
                    yield start, end

    @property
    def label(self) -> str:
        return f"list:{self.file}"

    @property
    def digest(self) -> str:
        return digest_of("list", *sorted(self.literals))


def _first_piece(literal: str) -> str:
    match = _PIECE.match(literal)
    assert match is not None  # no literal is empty
    return match.group()
