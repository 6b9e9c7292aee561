"""What a session's ledger charged, beside what its queries tell: by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Divergences, LogRatios
from audit.core.predictor import Access
from audit.core.secret import Coins
from audit.findings import Case, Charges, measurements_of
from audit.findings.charges import NEEDED, bet, compared
from audit.findings.verdict import claim_overall
from audit.results.joined import leaked_overall
from audit.results.measurement import Measurement
from audit.results.numbers import FROM_FILE
from audit.results.schema import ChargeTest
from tests.findings.by_hand import answered, charged, promise
from tests.findings.closeness import figures, six

NAN, INF = math.nan, math.inf
CASE = Case("ledger", (), Coins({}, {}), 0.0, 0, Access.GENERATE)


def divergences(
    forth: Any, back: Any, units: tuple[int, ...] = (0, 1), order: float = 2.0
) -> Divergences:
    relations = ("removed", "replace")[: len(units)]
    return Divergences(units, relations, order, np.array(forth), np.array(back))


def charges(rows: Any, **more: Any) -> Charges:
    return Charges(**{"order": 2.0, "per_query": np.array(rows, dtype=float), **more})


def found(evidence: Any, charged: Charges | None) -> Measurement:
    (finding,) = measurements_of([evidence], replace(CASE, charges=charged))
    return finding


def test_the_nearest_query_by_hand() -> None:
    evidence = divergences([[0.1, 0.2, NAN], [0.0, 0.3, 0.1]], [[0.2, 0.1, NAN], [0.1, 0.2, 0.3]])
    charged = charges([[0.4, 0.5], [0.4, 0.4], [0.1, 0.6]], epsilon=2.0, budget=100)
    best = compared(evidence, charged)
    assert best is not None and not best.refutes and best.exceeded == 0
    assert (best.query, best.unit, best.relation) == (1, 1, "replace")
    assert (best.divergence, best.charge, best.queries) == (0.3, 0.4, 3)
    assert best.share == six(0.75) and best.admitted == 4
    finding = found(evidence, charged)
    assert finding.interval.ci == six((0.75, 0.75))
    assert finding.interval.value == six(0.75) and finding.interval.n == 3
    assert (finding.p_value, finding.chance, finding.epsilon_lower) == (None, None, None)
    assert finding.charge_test == ChargeTest(queries=3, exceeded=0)
    assert figures(finding.observation) == [3, 2, 2, 0.4, 2, 2, 0.3]


@pytest.mark.parametrize("side", ["forth", "back"])
def test_one_query_beyond_its_charge_refutes_whatever_the_others_say(side: str) -> None:
    quiet, loud = np.zeros((2, 50)), np.zeros((2, 50))
    loud[0, 17] = 0.25
    pair = (loud, quiet) if side == "forth" else (quiet, loud)
    charged = charges(np.full((50, 2), 0.1), epsilon=2.0, budget=12)
    best = compared(divergences(*pair), charged)
    assert best is not None and best.refutes and best.exceeded == 1
    assert (best.query, best.unit, best.admitted) == (17, 0, 12)  # the budget of queries ends it
    finding = found(divergences(*pair), charged)
    assert finding.charge_test == ChargeTest(queries=50, exceeded=1)
    assert figures(finding.observation) == [50, 2, 1, 18, 0.1, 2, 1, 0.25, 12, 3]


@pytest.mark.parametrize(
    ("forth", "back", "charge", "share"),
    [
        (0.1, 0.1, 0.1, 1.0),  # exactly what is told is enough
        (0.0, 0.0, 0.0, 0.0),  # what costs nothing may tell nothing
        (1e-9, 0.0, 0.0, INF),
        (INF, 0.0, 0.5, INF),
    ],
)
def test_share_above_the_charge_refutes(
    forth: float, back: float, charge: float, share: float
) -> None:
    best = compared(divergences([[forth]], [[back]], (0,)), charges([[charge]]))
    assert best is not None and (best.share, best.refutes) == (share, share > 1)
    assert charge or not best.refutes or best.admitted is None


def test_charges_are_those_of_the_unit_and_of_the_query() -> None:
    told = np.arange(1.0, 7.0).reshape(2, 3) / 10  # (units 2 and 0, queries)
    exact = np.array([[0.4, 9.0, 0.1], [0.5, 9.0, 0.2], [0.6, 9.0, 0.3]])  # (queries, units)
    evidence = divergences(told, told, (2, 0))
    fits = compared(evidence, charges(exact))
    assert fits is not None and not fits.refutes and fits.share == six(1.0)
    for wrong in (exact[:, ::-1], exact[::-1], np.roll(exact, 1, axis=0)):
        other = compared(evidence, charges(wrong))
        assert other is not None and other.refutes


def test_a_smaller_order_may_refute_and_a_larger_one_never() -> None:
    told = divergences([[0.2]], [[0.2]], (0,), order=2.0)
    smaller = compared(told, charges([[0.1]], order=3.0))
    assert smaller is not None and smaller.refutes
    assert compared(told, charges([[0.1]], order=1.5)) is None


@pytest.mark.parametrize(
    ("evidence", "charged", "why"),
    [
        (divergences(np.empty((0, 0)), np.empty((0, 0)), ()), charges([[0.1]]), NEEDED),
        (divergences([[0.1]], [[0.1]], (0,)), None, NEEDED),
        (divergences([[0.1]], [[0.1]], (0,)), charges([[0.1]], order=None), NEEDED),
        (divergences([[0.1]], [[0.1]], (0,)), charges([]), "no query was answered"),
        (divergences([[], []], [[], []]), charges([]), "no query was answered"),
        (divergences([[NAN]], [[NAN]], (0,)), charges([[0.1]]), "no query was answered"),
    ],
)
def test_what_cannot_be_compared_is_not_measured(
    evidence: Divergences, charged: Charges | None, why: str
) -> None:
    finding = found(evidence, charged)
    assert (finding.interval.value, finding.interval.n) == (None, 0)
    assert (finding.interval.method, finding.observation) == (why, "")
    assert finding.charge_test == ChargeTest(queries=0)


@pytest.mark.parametrize(
    "test",
    [{"queries": 1}, {"queries": 0, "exceeded": 0}, {"queries": 0, "p_value": 0.5},
     {"queries": 3, "exceeded": 0, "p_value": 0.5}],
)  # fmt: skip
def test_a_stored_test_compares_or_bets_and_only_where_there_are_queries(test: Any) -> None:
    with pytest.raises(ValueError, match="queries"):
        ChargeTest.model_validate(test, context=FROM_FILE)


@pytest.mark.parametrize(
    ("given", "claim", "said"),
    [
        (charged(0.9, exceeded=0), "not refuted", "no query was found to tell more"),
        (charged(1.1, exceeded=1), "refuted", "a query tells more than it was charged"),
        (charged(40.0, p_value=1 / 40), "refuted", "a query tells more than it was charged"),
        (charged(19.0, p_value=1 / 19), "not refuted", "no query was found to tell more"),
        (charged(None, queries=0), "not testable", "No test of the claim: it needs a ledger."),
    ],
)
def test_a_ledger_answers_the_claim_alone(given: Measurement, claim: str, said: str) -> None:
    one = answered(given, promise(2.0))
    assert (one.leaked, one.claim) == ("not measured", claim)
    assert said in one.claim_sentence
    assert leaked_overall([one]) == "not measured"
    assert claim_overall([one], promise(2.0)) == claim
    assert answered(given, promise(math.inf)).claim == "nothing claimed"


# bets


def ratios(forth: Any, back: Any, forth_queries: Any, back_queries: Any) -> LogRatios:
    one, two, three, four = map(np.array, (forth, forth_queries, back, back_queries))
    units = tuple(range(len(forth)))
    return LogRatios(units, ("removed",) * len(units), one, two, three, four)


def test_a_bet_by_hand() -> None:
    """X = e^{2L − c}; shares 1/64, 1/16, 1/4, 3/4 of a stake, split over both directions."""
    evidence = ratios([[1.0, NAN]], [[0.5, -0.6]], [[2, 3]], [[0, 1]])
    charged = charges([[0.3], [0.4], [0.1], [9.0]])
    shares = np.array([1 / 64, 1 / 16, 1 / 4, 3 / 4])
    forth = np.mean(1 + shares * (math.exp(2.0 - 0.1) - 1))
    steps = [1 + shares * (math.exp(x) - 1) for x in (1.0 - 0.3, -1.2 - 0.4)]  # won, then lost
    wealth, n = bet(evidence, charged)
    assert n == 3
    assert wealth == six((forth + np.mean(steps[0] * steps[1])) / 2)
    finding = found(evidence, charged)
    assert finding.interval.value == six(wealth) and finding.interval.n == 3
    assert f"p = {1 / wealth:.2g}" in finding.observation and finding.p_value is None
    assert finding.charge_test == ChargeTest(queries=3, p_value=1 / finding.interval.value)


@pytest.mark.parametrize("charged", [None, charges([]), charges([[0.1]], order=None)])
def test_without_charges_there_is_no_bet(charged: Charges | None) -> None:
    evidence = ratios([[1.0]], [[1.0]], [[0]], [[0]])
    assert bet(evidence, charged) == (1.0, 0)
    assert found(evidence, charged).interval.value is None
