"""Findings from the highest scores: how many of them are members'.

The rank test compares members with others on the whole. It misses a model that gives away a few
people wholly and nothing of the others; the top finds just that.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from audit.core.evidence import Scores
from audit.findings import reach
from audit.findings.case import Case
from audit.findings.likelihoods import are_equal
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement, Power
from audit.results.words import number
from audit.statistics import top_test
from audit.statistics.interval import no_interval
from audit.statistics.tossed import Top, Tossed

_NAMES = {Fraction(1, 8): "eighth", Fraction(1, 5): "fifth", Fraction(1, 4): "quarter"}


def test_of(scores: Scores, case: Case) -> str:
    """Name the test of a score's top."""
    return f"{case.attack} {_metric(scores)}"


def test(scores: Scores, case: Case) -> Tossed:
    """Make the one-sided test of the top, for any toss of the coins."""
    return case.of_coins(lambda own: Top(own, _share(own, case)), scores.values)


def measurement(scores: Scores, case: Case) -> Measurement:
    """Compute the share of members among the highest scores."""
    members, controls = case.sides(scores.values)
    every = np.concatenate([members, controls])
    tested, share = bool(len(members) and len(controls)), _share(every, case)
    told_apart = tested and not are_equal(members, controls)
    top = top_test.places(len(members), len(controls), share)
    inside = float(top_test.top_weights(every, top)[: len(members)].sum()) if tested else 0.0
    seen = no_interval(
        top if tested else 0,
        0.95,
        f"of the highest {_NAMES[share]} of all scores" if tested else "too few scores",
        inside / top if tested else None,
    )
    return case.measurement(
        scores,
        _metric(scores),
        seen,
        unit="share of the highest scores",
        observation=f"{number(inside)} of the {top} highest scores are members'." if tested else "",
        chance=len(members) / len(every) if tested else None,
        p_value=test(scores, case).p_value(case.heads) if tested else None,
        least_p=top_test.smallest(len(members), len(controls), share) if told_apart else 1.0,
        test=test_of(scores, case),
        power=Power(n=seen.n, **reach_of(scores, case)),
    )


def reach_of(scores: Scores, case: Case) -> dict[str, float]:
    """Compute the reach of a score, which all of its readings share."""
    members, controls = map(len, case.sides(scores.values))
    return reach.of_scores(members, controls, top=True, named=scores.named, case=case)


def _metric(scores: Scores) -> str:
    return f"{scores.target}_{scores.score}_top"


def _share(values: np.ndarray, case: Case) -> Fraction:
    """Choose how much of all scores is the top, by numbers that no toss changes."""
    inside, outside = case.split(int((~np.isnan(values)).sum()))
    if not inside or not outside:
        return top_test.SHARES[0]
    return top_test.best_share(inside, outside, LEVEL / case.tests)
