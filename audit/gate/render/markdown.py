"""Formats a gate as Markdown, for the summary page of a CI job."""

from __future__ import annotations

from audit.gate.outcome import Outcome, State
from audit.gate.render.escaping import markdown

_ORDER = (
    *(State.FAIL, State.INCONCLUSIVE, State.WARNED, State.WAIVED),
    *(State.PASS, State.SKIPPED),
)


def render(outcome: Outcome) -> str:
    """Format the verdict, the open checks and the notes; the passed checks are folded away."""
    checks = sorted(outcome.checks, key=lambda check: _ORDER.index(check.state))
    rows = {state: [c for c in checks if c.state == state] for state in _ORDER}
    closed = [*rows[State.PASS], *rows[State.SKIPPED]]
    shown = [check for check in checks if check not in closed]
    lines = [f"**{markdown(outcome.badge)}**", ""] if outcome.badge else []
    lines += [f"### {markdown(outcome.headline)}", ""]
    lines += _table([(c.state, c.id, c.sentence) for c in shown])
    lines += [f"- {markdown(note)}" for note in outcome.notes]
    if closed:
        lines += ["", f"<details><summary>{len(closed)} passed or not applicable</summary>", ""]
        lines += [*_table([(c.state, c.id, c.sentence) for c in closed]), "</details>"]
    return "\n".join(lines).rstrip() + "\n\n"


def _table(rows: list[tuple[State, str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [" | ".join(("", *map(markdown, row), "")).strip() for row in rows]
    return ["| | check | |", "|---|---|---|", *lines, ""]
