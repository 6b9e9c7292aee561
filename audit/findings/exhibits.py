"""Findings from exhibits: copies of users' text that no coin decides, beside what the base writes.

An exhibit has no p-value. It is a leak where the base model would hardly have written the copied
run: the log of its probability there, with all tries counted, is below −40 nats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit.core.evidence import Exhibits
from audit.core.terms import Leaked
from audit.findings.case import Case
from audit.results.measurement import Exhibit, FindingResult, Measurement
from audit.results.words import number
from audit.statistics.clopper_pearson import clopper_pearson

MOST = -40.0  # nats: of the run under the base and of all tries
_UNTESTED = "An exhibit has no p-value: it can show a leak, and never its absence."


def measurements(exhibits: Exhibits, case: Case) -> list[Measurement]:
    """Count users of whom a copy came up, with the figure of the one that the base writes least."""
    own = exhibits.users == 1
    tries = math.log(max(1, exhibits.tried))
    nats = exhibits.log_probs[own] + tries
    known = bool(own.any()) and not np.isnan(nats).any()
    exhibit = Exhibit(
        nats=float(nats.min()) if known else None,
        unwritten=int((nats < MOST).sum()),
        shared=int((~own).sum()),
        tried=exhibits.tried,
    )
    k, n = int(own.sum()), exhibits.asked
    return [
        case.measurement(
            exhibits,
            "own_exhibits",
            clopper_pearson(k, n),
            unit="share of users without coins",
            observation=_observation(exhibit, k, n) if n else "",
            k=k,
            chance=None,
            control=None,
            p_value=None,
            least_p=1.0,
            untested=_UNTESTED,
            epsilon_lower=None,
            exhibit=exhibit,
        )
    ]


def _observation(exhibit: Exhibit, k: int, n: int) -> str:
    seen = f"Of {n} users without coins, own words of {k} came up that stand with nobody else"
    shared = f"; of {exhibit.shared}, words of several users" if exhibit.shared else ""
    return f"{seen}{shared}."


def leaked(exhibit: Exhibit, k: int) -> tuple[Leaked, str]:
    """Answer what leaked by an exhibit. k: users of whom a copy came up."""
    if not k:
        return Leaked.INCONCLUSIVE, _UNTESTED
    if exhibit.nats is None:
        return Leaked.INCONCLUSIVE, "A copy was seen, and the base is unknown, which may write it."
    figure = f"{number(exhibit.nats)} nats with all {exhibit.tried:,} tries counted"
    if exhibit.nats >= MOST:
        return Leaked.INCONCLUSIVE, f"The base writes it too ({figure})."
    how = f"the base would write one of them with a log-probability of {figure}"
    return Leaked.LEAK, f"A leak: {how}, and below {MOST:g} is a leak; no p-value."


def chance(finding: Measurement) -> float | None:
    """Bound the probability that the base had written an exhibit in one of its tries."""
    if finding.exhibit is None or finding.exhibit.nats is None or finding.exhibit.nats >= MOST:
        return None
    return math.exp(finding.exhibit.nats)


def clearest(findings: Sequence[FindingResult]) -> Exhibit | None:
    """Return the exhibit of several seeds that the base writes least; None where there is none."""
    known = [f.exhibit for f in findings if f.exhibit is not None]
    return min(known, key=lambda e: math.inf if e.nats is None else e.nats, default=None)
