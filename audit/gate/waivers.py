"""Waivers: which checks may fail until when, and why. An expired waiver has no effect."""

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
    """Mark the waived checks, and add a note for each waiver that expired or is not needed."""
    notes = []
    valid = []
    for waiver in waivers:
        waivable = [c for c in checks if c.state in OPEN and fnmatchcase(c.id, waiver.check)]
        if waiver.expires < today:
            still = f"; {len(waivable)} checks still need it" if waivable else ""
            notes.append(f"the waiver of {waiver.check} expired on {waiver.expires}{still}")
        elif not waivable:
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
