"""A gate in Markdown, for the page of a CI job."""

from __future__ import annotations

from audit.gate.outcome import Outcome, State
from audit.gate.render.escaping import markdown

_ORDER = (State.FAIL, State.INCONCLUSIVE, State.WAIVED, State.PASS, State.SKIPPED)


def render(outcome: Outcome) -> str:
    """The verdict, what is not passed, the notes; what passed is folded away."""
    checks = sorted(outcome.checks, key=lambda check: _ORDER.index(check.state))
    rows = {state: [c for c in checks if c.state == state] for state in _ORDER}
    calm = [*rows[State.PASS], *rows[State.SKIPPED]]
    loud = [check for check in checks if check not in calm]
    lines = [f"### {markdown(outcome.headline)}", ""]
    lines += _table([(c.state, c.id, c.sentence) for c in loud])
    lines += [f"- {markdown(note)}" for note in outcome.notes]
    if calm:
        lines += ["", f"<details><summary>{len(calm)} passed or not applicable</summary>", ""]
        lines += [*_table([(c.state, c.id, c.sentence) for c in calm]), "</details>"]
    return "\n".join(lines).rstrip() + "\n\n"


def _table(rows: list[tuple[State, str, str]]) -> list[str]:
    if not rows:
        return []
    told = [" | ".join(("", *map(markdown, row), "")).strip() for row in rows]
    return ["| | check | |", "|---|---|---|", *told, ""]
