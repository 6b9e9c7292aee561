"""Findings from the low end of a ROC: how many members stand above nearly all controls."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.core.evidence import Scores
from audit.findings.finding import LEVEL, Case, Finding
from audit.results.schema import Power
from audit.results.words import percent
from audit.statistics import low_end as exact
from audit.statistics import power, roc
from audit.statistics.interval import clopper_pearson, no_interval

LOW = {"1": 0.01, "0.1": 0.001}  # false positive rates, by their percentage


def findings(scores: Scores, case: Case, row: Finding) -> list[Finding]:
    """Computes the TPR at low FPR, and for the named score how many members lead all controls.

    row: the AUC's finding, for other metrics of the same test. The named score's metrics have exact
    tests of their own: of a minority that leaks completely, the AUC sees nothing.
    """
    members, controls = case.sides(scores.values)
    made = []
    for percentage, fpr in LOW.items():
        interval = roc.tpr_at_fpr(members, controls, fpr)
        if interval.value is None and scores.score != "loss":
            continue  # the loss reports it once for all scores
        share = "" if interval.value is None else f"{percent(interval.value)} of the members found"
        found = replace(
            row,
            metric=row.metric.replace("_auc", f"_tpr_at_{percentage}_percent"),
            unit="share of members",
            interval=interval,
            observation=f"{share} at a false positive rate of {percentage} %." if share else "",
            untested=f"The {interval.method}." if interval.value is None else "",
            chance=fpr if interval.value is None else _passing(fpr, len(controls)),
            power=Power(
                smallest_rate=_unseen(interval.n) if interval.n else None,
                largest_epsilon=None,
                n=interval.n,
            ),
        )
        if scores.named and interval.value is not None:
            found = _tested(found, members, controls, exact.passing_at(fpr, len(controls)), case)
        made.append(found)
    if scores.named and len(controls) < 1 / min(LOW.values()):
        made.append(_leading(members, controls, case, row))
    return made


def _tested(
    found: Finding, members: np.ndarray, controls: np.ndarray, passing: int, case: Case
) -> Finding:
    """Adds the exact test of how many members stand above all but `passing` controls."""
    n, m = len(members), len(controls)
    lots = case.stream("low end", found.metric)
    above = exact.above(members, controls, passing, lots)
    return replace(
        found,
        p_value=exact.p_value(above, n, m, passing),
        least_p=exact.smallest(n, m, passing),
        test=f"{case.attack} {found.metric}",
    )


def _leading(members: np.ndarray, controls: np.ndarray, case: Case, row: Finding) -> Finding:
    """Computes the share of members above every control: the low end where controls are few.

    The interval is for the threshold that these controls set.
    """
    n, m = len(members), len(controls)
    metric = row.metric.replace("_auc", "_above_all")
    leading = replace(
        row,
        metric=metric,
        unit="share of members",
        chance=1 / (m + 1) if m else None,
        p_value=None,
        least_p=1.0,
        test=f"{case.attack} {metric}",
        power=Power(smallest_rate=None, largest_epsilon=None, n=n),
    )
    if not n or not m:
        return replace(leading, interval=no_interval(n, 0.95, "too few scores"), observation="")
    k = int((members > controls.max()).sum())
    interval = replace(
        clopper_pearson(k, n), method=f"Clopper-Pearson over members, above these {m} controls"
    )
    return _tested(
        replace(
            leading,
            interval=interval,
            k=k,
            observation=f"{k} of {n} members score above all {m} others.",
            power=Power(smallest_rate=power.smallest_rate(n), largest_epsilon=None, n=n),
        ),
        members,
        controls,
        0,
        case,
    )


def _unseen(members: int) -> float:
    """Computes the upper limit on the rate if none is above: half the error is the threshold's."""
    return power.smallest_rate(members, 1 - LEVEL / 2)


def _passing(fpr: float, controls: int) -> float:
    """Computes the chance that a further control passes the threshold that these set."""
    return (math.floor(fpr * controls + 1e-9) + 1) / (controls + 1)
