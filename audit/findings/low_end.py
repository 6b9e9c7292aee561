"""Findings from the low end of a ROC: how many members stand above nearly all controls."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from audit.core.evidence import Scores
from audit.findings.case import Case
from audit.findings.likelihoods import are_equal
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement
from audit.results.words import percent
from audit.statistics import low_end as exact
from audit.statistics import power, roc
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import no_interval
from audit.statistics.tossed import LowEnd, Tossed

LOW = {"1": 0.01, "0.1": 0.001}  # false positive rates, by their percentage


def measurements(scores: Scores, case: Case, area: Measurement) -> list[Measurement]:
    """Compute the TPR at low FPR, and for the named score how many members lead all controls.

    area: the AUC, whose test is that of the others. The named score's metrics have exact tests of
    their own: of a minority that leaks completely, the AUC sees nothing.
    """
    members, controls = case.sides(scores.values)
    made = []
    for percentage, fpr in LOW.items():
        interval = roc.tpr_at_fpr(members, controls, fpr)
        if interval.value is None and scores.score != "loss":
            continue  # the loss reports it once for all scores
        share = "" if interval.value is None else f"{percent(interval.value)} of the members found"
        metric = _tpr(scores, percentage)
        test = {"p_value": area.p_value, "least_p": area.least_p, "test": area.test}
        if scores.named and interval.value is not None:
            test = _tested(scores, metric, _may_pass(scores, fpr, case), case)
        made.append(
            case.measurement(
                scores,
                metric,
                interval,
                unit="share of members",
                observation=f"{share} at a false positive rate of {percentage} %." if share else "",
                untested=f"The {interval.method}." if interval.value is None else "",
                chance=fpr if interval.value is None else _passing(fpr, len(controls)),
                power=area.power.changed(
                    smallest_rate=_unseen(interval.n), largest_epsilon=None, n=interval.n
                ),
                **test,
            )
        )
    if scores.named and len(controls) < 1 / min(LOW.values()):
        made.append(_leading(scores, members, controls, case, area))
    return made


def tests(scores: Scores, case: Case) -> dict[str, Tossed]:
    """Make the tests of a named score's low end, for any toss of the coins."""
    if not scores.named:
        return {}
    passing = {_tpr(scores, name): _may_pass(scores, fpr, case) for name, fpr in LOW.items()}
    passing[_above_all(scores)] = 0
    return {
        f"{case.attack} {metric}": _test(scores, metric, most, case)
        for metric, most in passing.items()
    }


def _tpr(scores: Scores, percentage: str) -> str:
    return f"{scores.target}_{scores.score}_tpr_at_{percentage}_percent"


def _above_all(scores: Scores) -> str:
    return f"{scores.target}_{scores.score}_above_all"


def _test(scores: Scores, metric: str, passing: int, case: Case) -> Tossed:
    """Make the exact test of how many members stand above all but `passing` controls."""

    def make(own: np.ndarray) -> LowEnd:
        return LowEnd(own, case.stream("low end", metric).random(len(own)), passing)

    return case.of_coins(make, scores.values)


def _may_pass(scores: Scores, fpr: float, case: Case) -> int:
    """Compute how many controls may pass, by a number of controls that no toss changes."""
    return exact.passing_at(fpr, case.split(sum(map(len, case.sides(scores.values))))[1])


def _tested(scores: Scores, metric: str, passing: int, case: Case) -> dict[str, Any]:
    sides = case.sides(scores.values)
    members, controls = map(len, sides)
    able = controls > passing and not are_equal(*sides)
    return {
        "p_value": _test(scores, metric, passing, case).p_value(case.heads),
        "least_p": exact.smallest(members, controls, passing) if able else 1.0,
    }


def _leading(
    scores: Scores, members: np.ndarray, controls: np.ndarray, case: Case, area: Measurement
) -> Measurement:
    """Compute the share of members above every control: the low end where controls are few.

    The interval is for the threshold that these controls set.
    """
    n, m = len(members), len(controls)
    metric = _above_all(scores)
    if not n or not m:
        return case.measurement(
            scores,
            metric,
            no_interval(n, 0.95, "too few scores"),
            unit="share of members",
            observation="",
            chance=1 / (m + 1) if m else None,
            least_p=1.0,
        )
    k = int((members > controls.max()).sum())
    method = f"Clopper-Pearson over members, above these {m} controls"
    return case.measurement(
        scores,
        metric,
        replace(clopper_pearson(k, n), method=method, sizes=(n, m)),
        unit="share of members",
        observation=f"{k} of {n} members score above all {m} others.",
        k=k,
        chance=1 / (m + 1),
        power=area.power.changed(smallest_rate=power.smallest_rate(n), largest_epsilon=None, n=n),
        **_tested(scores, metric, 0, case),
    )


def _unseen(members: int) -> float | None:
    """Compute the upper limit on the rate if none is above: half the error is the threshold's."""
    return power.smallest_rate(members, 1 - LEVEL / 2) if members else None


def _passing(fpr: float, controls: int) -> float:
    """Compute the chance that a further control passes the threshold that these set."""
    return (math.floor(fpr * controls + 1e-9) + 1) / (controls + 1)
