"""Formats a gate for a terminal: one line per check, worst last, then the verdict."""

from __future__ import annotations

from audit.gate.outcome import Outcome, State

_ORDER = (State.SKIPPED, State.PASS, State.WAIVED, State.WARNED, State.INCONCLUSIVE, State.FAIL)


def render(outcome: Outcome) -> str:
    """Format the outcome as plain lines; the last one is the verdict sentence."""
    checks = sorted(outcome.checks, key=lambda check: _ORDER.index(check.state))
    lines = [f"{check.state:<12} {check.id}: {check.sentence}" for check in checks]
    lines += [f"note: {note}" for note in outcome.notes]
    return "\n".join(filter(None, [*lines, outcome.badge, outcome.headline]))
