"""Outcome of a verification, and its text."""

from __future__ import annotations

from dataclasses import dataclass

_FORGED = (
    "Whoever can edit all files can make them agree: only a signature of SHA256SUMS excludes that."
)


@dataclass(frozen=True)
class Verification:
    """Differences, one line each; what was derived again; what could not be verified."""

    differences: tuple[str, ...]
    verified: tuple[str, ...]
    not_verifiable: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Return whether all that can be verified follows."""
        return not self.differences

    @property
    def exit_code(self) -> int:
        """0: all that can be verified follows; 1: something does not."""
        return 0 if self.holds else 1

    def __str__(self) -> str:
        found = len(self.differences)
        verdict = "VERIFIED" if self.holds else f"NOT VERIFIED: {found} do not follow"
        parts = (
            ("", self.differences),
            ("verified:", self.verified),
            ("not verifiable:", self.not_verifiable),
        )
        lines = [verdict]
        for title, rows in parts:
            lines += [title] * bool(title and rows)
            lines += [f"  {' '.join(line.splitlines())}" for line in rows]  # of hostile names
        return "\n".join([*lines, _FORGED])
