"""Waivers: what may fail for a while, and why. One that has expired is none."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from audit.gate.outcome import Check, State
from audit.gate.policy import Waiver

OPEN = (State.FAIL, State.INCONCLUSIVE)


def applied(
    checks: Sequence[Check], waivers: Sequence[Waiver], today: datetime.date
) -> tuple[list[Check], list[str]]:
    """Checks with what is waived marked so, and notes on waivers that expired or serve nothing."""
    notes = []
    valid = []
    for waiver in waivers:
        open_ones = [c for c in checks if c.state in OPEN and fnmatchcase(c.id, waiver.check)]
        if waiver.expires < today:
            still = f"; {len(open_ones)} checks need it" if open_ones else ""
            notes.append(f"the waiver of {waiver.check} expired on {waiver.expires}{still}")
        elif not open_ones:
            notes.append(f"the waiver of {waiver.check} waives nothing; remove it")
        else:
            valid.append(waiver)
    return [_waived(check, valid) for check in checks], notes


def _waived(check: Check, waivers: Sequence[Waiver]) -> Check:
    if check.state not in OPEN:
        return check
    for waiver in waivers:
        if fnmatchcase(check.id, waiver.check):
            until = f"{check.state} waived until {waiver.expires} ({waiver.reason})"
            return replace(check, state=State.WAIVED, sentence=f"{until}: {check.sentence}")
    return check
