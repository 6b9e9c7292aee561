"""The outcome of a gate: checks, each with a state and a sentence, and one state over all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Final state of a check. FAIL stops a build; INCONCLUSIVE does so only if strict.

    WARNED: a leak to those who have more access than the release gives.
    """

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    WAIVED = "WAIVED"
    WARNED = "WARNED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class Check:
    """One question to the run, with its answer.

    rule: the kind of question, such as "leak" or "limit". release, subject: what it is about.
    line: of the rule in the policy; None for checks that no rule asks for.
    """

    rule: str
    release: str
    subject: str
    state: State
    sentence: str
    line: int | None = None

    @property
    def id(self) -> str:
        """`limit/submix/extraction.hit_rate`: the same in every build, whatever its result."""
        return "/".join(filter(None, (self.rule, self.release, self.subject)))


@dataclass(frozen=True)
class Outcome:
    """All checks of one gate. Console, exit code, JUnit, SARIF and summary are views of it.

    notes: further lines for the reader. policy: the file whose lines the checks point to.
    badge: the verdict of page one, with its sentence.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    policy: str
    strict: bool
    badge: str = ""

    @property
    def state(self) -> State:
        """FAIL if any check failed; PASS if none is inconclusive and one passed or is waived."""
        states = {check.state for check in self.checks}
        if State.FAIL in states:
            return State.FAIL
        if State.INCONCLUSIVE in states or not states & {State.PASS, State.WAIVED}:
            return State.INCONCLUSIVE
        return State.PASS

    @property
    def exit_code(self) -> int:
        """0: passed, or inconclusive and not strict. 1: failed. 4: inconclusive and strict."""
        inconclusive = 4 if self.strict else 0
        return {State.FAIL: 1, State.INCONCLUSIVE: inconclusive}.get(self.state, 0)

    @property
    def headline(self) -> str:
        """The verdict sentence."""
        counted = Counter(check.state for check in self.checks)
        words = {
            State.FAIL: "failed",
            State.INCONCLUSIVE: "inconclusive",
            State.PASS: "passed",
            State.WAIVED: "waived",
            State.WARNED: "warned",
            State.SKIPPED: "not applicable",
        }
        parts = [f"{counted[state]} {word}" for state, word in words.items() if counted[state]]
        return f"gate: {self.state} ({', '.join(parts) or 'nothing was checked'})"

    def stops(self, check: Check) -> bool:
        """Return whether this check alone would stop the build."""
        return check.state == State.FAIL or (self.strict and check.state == State.INCONCLUSIVE)
