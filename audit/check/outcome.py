"""The outcome of a check: what was measured, what was due, and whether they agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy.stats import norm

from audit.check.catalogue import Check

LEVEL = 1e-5  # a test fails below this p-value, after Bonferroni within the check


class Status(StrEnum):
    """The status of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_READ = "not read"


@dataclass(frozen=True)
class Outcome:
    """One check on one kind of units.

    units: what the engine was trained on. quantity: what was measured. value: the worst of it;
        None where it was not read. due: what it should be.
    p: of the test, Bonferroni within the check; None for exact checks.
    detects: the relative size of a fault that is found in nine of ten examinations; None: unknown.
    remark: what a reader has to know besides; the reason where it was not read.
    """

    check: Check
    units: str
    status: Status
    quantity: str
    value: float | None
    due: str
    p: float | None = None
    detects: float | None = None
    remark: str = ""

    @property
    def failed(self) -> bool:
        return self.status == Status.FAILED


def exact(
    check: Check, units: str, quantity: str, value: float, due: str, holds: bool, remark: str = ""
) -> Outcome:
    """Make the outcome of an exact check."""
    status = Status.PASSED if holds else Status.FAILED
    return Outcome(check, units, status, quantity, value, due, remark=remark)


def tested(
    check: Check,
    units: str,
    quantity: str,
    value: float,
    due: str,
    ps: Sequence[float],
    detects: float | None = None,
) -> Outcome:
    """Make the outcome of a check of several p-values; NaN fails."""
    p = 0.0 if any(map(math.isnan, ps)) else min(1.0, len(ps) * min(ps))
    status = Status.PASSED if p >= LEVEL else Status.FAILED
    return Outcome(check, units, status, quantity, value, due, p, detects)


def not_read(check: Check, units: str, why: str) -> Outcome:
    """Make the outcome of a check that could not be read."""
    return Outcome(check, units, Status.NOT_READ, "", None, "", remark=why)


def detectable(deviation: float, tests: int = 1) -> float:
    """Compute the fault that one of a check's tests finds nine times in ten.

    deviation: standard deviation of the figure that it reads, without a fault.
    """
    return float(norm.isf(LEVEL / tests / 2.0) + norm.isf(0.1)) * deviation
