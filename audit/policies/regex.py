"""The policy `regex`: regular expressions from a file."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, final

from audit.core.errors import UsageError
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, disjoint
from audit.core.time_limit import limited
from audit.policies._lines import numbered

SECONDS = 5.0  # for all matches of one pattern in one text


@final
@dataclass(frozen=True)
class Regex(Policy):
    """All matches of a file's regular expressions, one per line (# comments): regex:FILE.

    file: the file's name, without its folder.
    """

    argument: ClassVar[str] = "FILE"

    file: str
    patterns: tuple[str, ...]

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Regex:
        lines = numbered(argument, "regex")
        lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
        if not lines:
            raise UsageError(f"policy regex: {argument} has no pattern; write one per line")
        for number, pattern in lines:
            _check(pattern, f"policy regex: {argument}:{number}: pattern {pattern!r}")
        return cls(Path(argument).name, tuple(pattern for _, pattern in lines))

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(re.compile, self.patterns))

    def __call__(self, text: str) -> list[Span]:
        matches = (span for pattern in self._compiled for span in self._matches(pattern, text))
        return disjoint((low, high) for low, high in matches if low < high)

    def _matches(self, pattern: re.Pattern[str], text: str) -> list[Span]:
        """Raise UsageError for a pattern that tries too many ways to match."""
        what = f"policy {self.label}: pattern {pattern.pattern!r} on a text of {len(text)} signs"
        with limited(SECONDS, what, "write it without nested repetition"):
            return [match.span() for match in pattern.finditer(text)]

    @property
    def label(self) -> str:
        return f"regex:{self.file}"

    @property
    def digest(self) -> str:
        return digest_of("regex", *self.patterns)


def _check(pattern: str, where: str) -> None:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{where} is broken ({error})") from None
    # Some match the empty string only beside a character, such as \b.
    probes = ("", string.printable)
    with limited(SECONDS, where, "write it without nested repetition"):
        empty = any(not match.group() for probe in probes for match in compiled.finditer(probe))
    if empty:
        raise UsageError(f"{where} matches the empty string; make it match at least a character")
