import contextlib
import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from audit.core.ledger import Ledger, round_up


@dataclass
class Memory:
    """A journal that keeps its rows as JSON would."""

    rows: list = field(default_factory=list)

    def previous(self):
        return [dict(row) for row in self.rows]

    def append(self, rows):
        self.rows += json.loads(json.dumps(rows))


def opened(epsilon=1.0, parts=1, budget=100, journal=None):
    return Ledger(epsilon, parts, budget, Memory() if journal is None else journal)


def admit(ledger, *charges):
    """One call with these charges, each a number (one part) or a row."""
    rows = np.array([np.atleast_1d(c) for c in charges], dtype=float)
    marks = [f"query {ledger.queries + i}" for i in range(len(rows))]
    return ledger.admit(rows, np.full(rows.shape, 0.5), marks)


# STOP


@pytest.mark.parametrize(
    ("parts", "calls", "spent"),
    [
        pytest.param(1, [((0.25,) * 3, 3), ((0.25,), 0)], [0.75], id="1 − 4·0.25 leaves nothing"),
        pytest.param(1, [((0.75, 0.249999), 2)], [0.75 + 0.249999], id="a hair less"),
        pytest.param(1, [((0.5, 2.0, 0.0, 1e-9), 1), ((0.0,), 0)], [0.5], id="for good"),
        pytest.param(
            3,
            [(([0.1, 0.5, 0], [0.1, 0, 0.3], [0.1, 0.5, 0], [0, 0, 0]), 2)],
            [0.2, 0.5, 0.3],
            id="one empty account stops all",
        ),
        pytest.param(2, [(([0.9, 0.1], [0.5, 0.5]), 1)], [0.9, 0.1], id="refused: no charge"),
        pytest.param(1, [((0.1, math.nan, 0.1), 1)], [0.1], id="no price: a row, not a crash"),
    ],
)
def test_a_query_is_answered_while_no_account_is_emptied(parts, calls, spent):
    ledger = opened(parts=parts)
    for charges, answered in calls:
        assert admit(ledger, *charges) == answered
    assert ledger.spent == pytest.approx(spent, abs=1e-15)
    assert ledger.queries == sum(len(charges) for charges, _ in calls)
    assert ledger.stopped == any(answered < len(charges) for charges, answered in calls)


def test_a_charge_that_is_no_price_is_never_admitted():
    for charge in (math.nan, math.inf, -math.inf, -0.1):
        ledger = opened(parts=2)
        admit(ledger, [0.25, 0.25])
        for _ in range(2):
            with contextlib.suppress(ValueError):
                assert admit(ledger, [0.0, charge]) == 0
        assert ledger.spent == [0.25, 0.25]
    for epsilon in (0.0, math.nan):
        assert admit(opened(epsilon=epsilon), 0.0) == 0


# the budget


def test_the_budget_counts_all_queries_and_stops_after_the_last():
    ledger = opened(budget=3)
    assert admit(ledger, 0.0, 0.0) == 2 and ledger.remaining == 1
    assert admit(ledger, 0.0, 0.0) == 1 and ledger.remaining == 0
    assert ledger.stopped
    ledger = opened(budget=3)
    ledger.skip(2)
    assert admit(ledger, 0.1, 0.1) == 1 and ledger.queries == 4
    ledger.skip(10)
    assert ledger.remaining == 0


@given(
    st.lists(st.integers(1, 5), max_size=6),
    st.integers(0, 12),
    st.floats(0.1, 3),
)
def test_batching_moves_nothing(sizes, budget, epsilon):
    charges = np.random.default_rng(budget).random((sum(sizes), 2)) / 2
    single, batched = (opened(epsilon, 2, budget) for _ in range(2))
    one = sum(admit(single, row) for row in charges)
    first, many = 0, 0
    for size in sizes:
        many += admit(batched, *charges[first : first + size])
        first += size
    assert (one, single.spent, single.queries, single.stopped) == (
        many,
        batched.spent,
        batched.queries,
        batched.stopped,
    )
    single.flush()
    batched.flush()
    assert single._journal.rows == batched._journal.rows
    assert max(batched.spent) < epsilon


# charge first


def test_every_charge_is_on_disk_when_flush_returns():
    journal = Memory()
    ledger = opened(journal=journal)
    admit(ledger, 0.25, 0.5, 0.5, 0.1)
    ledger.flush()
    ledger.flush()
    assert journal.rows == [
        {"query": 0, "asked": "query 0", "lambda": [0.5], "charge": [0.25], "stopped": False},
        {"query": 1, "asked": "query 1", "lambda": [0.5], "charge": [0.5], "stopped": False},
        {"query": 2, "asked": "query 2", "lambda": [0.5], "charge": [0.5], "stopped": True},
    ]


# replay


CHARGES = (0.1, 0.2, 1 / 3, 0.05)


def killed_after(n):
    journal = Memory()
    ledger = opened(journal=journal)
    admit(ledger, *CHARGES[:n])
    ledger.flush()
    return journal


def test_a_replay_of_the_same_queries_is_not_charged_twice():
    for n in range(5):
        journal = killed_after(n)
        ledger = opened(journal=journal)
        assert admit(ledger, *CHARGES) == 4
        ledger.flush()
        assert journal.rows == killed_after(4).rows
        assert ledger.spent == [sum(round_up(c) for c in CHARGES)]


def test_a_replay_beyond_stop_writes_nothing():
    journal = Memory()
    for _ in range(3):
        ledger = opened(journal=journal)
        assert admit(ledger, 0.5, 0.6, 0.1) == 1
        ledger.flush()
    assert len(journal.rows) == 2


@pytest.mark.parametrize(
    ("written", "asked", "answered", "spent"),
    [
        pytest.param(2, (0.1, 0.25), 2, 0.1 + 0.2 + 0.25, id="the second may have been answered"),
        pytest.param(4, (0.15,), 1, sum(CHARGES) + 0.15, id="all after the first that differs"),
        pytest.param(4, (0.31,), 1, sum(CHARGES) + 0.31, id="room for one more"),
        pytest.param(4, (0.32,), 0, sum(CHARGES), id="no room"),
    ],
)
def test_rows_that_differ_count_as_spent(written, asked, answered, spent):
    ledger = opened(journal=killed_after(written))
    assert admit(ledger, *asked) == answered
    assert ledger.spent == pytest.approx([spent], rel=1e-5)
    assert ledger.stopped == (answered < len(asked))


def test_rows_that_differ_stay_spent_in_the_session_after():
    journal = killed_after(2)
    for _ in range(2):
        ledger = opened(journal=journal)
        admit(ledger, 0.1, 0.25)
        ledger.flush()
    assert ledger.spent[0] >= 0.1 + 0.2 + 0.25
    ledger = opened(journal=journal)
    admit(ledger, 0.4)
    assert ledger.spent[0] >= 0.1 + 0.2 + 0.25  # and no less when yet another query comes


def test_what_only_the_auditor_may_know_does_not_make_another_query():
    """It depends on the data and may move in its last digit: the budget must not shrink by it."""
    journal = Memory()
    for attempt in range(2):
        ledger = opened(epsilon=2.0, budget=10, journal=journal)
        lambdas, local = np.full((10, 1), 0.5), np.full((10, 1), 0.04)
        if attempt:
            local[3] *= 1 + 1e-5
        marks = [f"query {i}" for i in range(10)]
        assert ledger.admit(np.full((10, 1), 0.1), lambdas, marks, local) == 10
        ledger.flush()
        assert ledger.spent == pytest.approx([1.0]) and ledger.remaining == 0
        assert len(journal.rows) == 10


def test_another_law_is_another_query():
    """Its answer may differ, so both are paid for."""
    ledger = opened(journal=killed_after(1))
    ledger.admit(np.array([[0.1]]), np.array([[0.75]]), ["query 0"])
    assert ledger.spent == pytest.approx([0.2])


def test_a_row_that_differs_in_anything_else_is_another_query():
    for changed in ({"query": 5}, {"asked": "another"}, {"charge": [0.100001]}, {"charge": [0.05]}):
        journal = killed_after(1)
        journal.rows[0] |= changed
        ledger = opened(journal=journal)
        assert admit(ledger, 0.1) == 1
        assert ledger.spent == pytest.approx([journal.rows[0]["charge"][0] + 0.1])
    journal = killed_after(1)
    journal.rows[0]["stopped"] = True
    ledger = opened(journal=journal)
    assert admit(ledger, 0.1) == 0 and ledger.stopped


# rounding


@given(st.floats(1e-290, 1e290))
@example(0.0078125)
@example(1 / 3)
@example(0.1 + 0.2)
@example(9.999995)
@example(999999.9999999999)
def test_a_charge_is_rounded_up_by_little(charge):
    rounded = round_up(charge)
    assert charge <= rounded <= charge * (1 + 1.0001e-5)
    assert float(f"{rounded:.5e}") == rounded == round_up(rounded)  # six digits, once


def test_a_charge_beside_a_power_of_ten_is_rounded_up():
    for power in range(-300, 301):
        ten = float(f"1e{power}")
        for charge in (ten, math.nextafter(ten, math.inf), math.nextafter(ten, 0), ten * 1.000004):
            assert charge <= round_up(charge) <= charge * (1 + 1.0001e-5)


@given(st.floats(0, 1e-290))
@example(5e-324)
@example(1.23456789e-319)
def test_the_least_charges_are_never_rounded_down(charge):
    assert round_up(charge) >= charge


def test_what_has_six_digits_is_left_as_it_is_and_nothing_is_negative():
    for charge in (0.0, 0.1, 0.25, 1.0, 2.0, 0.00195313, 123456.0, math.inf):
        assert round_up(charge) == charge
    for charge in (-1.0, -1e-300, -math.inf):
        with pytest.raises(ValueError, match="charge"):
            round_up(charge)


def test_lost_queries_count_against_the_budget():
    journal = Memory()
    admitted = opened(epsilon=1e9, budget=4, journal=journal)
    assert admit(admitted, 0.1, 0.1, 0.1) == 3
    admitted.flush()
    ledger = opened(epsilon=1e9, budget=4, journal=journal)
    assert ledger.admit(np.full((3, 1), 0.2), np.full((3, 1), 0.5), ["a", "b", "c"]) == 1
    assert ledger.remaining == 0


# accounts that do not stop a session


def hear(ledger, *costs, marks=None):
    """One call with these costs, each a number (one part) or a row; gives (heard, admitted)."""
    rows = np.array([np.atleast_1d(c) for c in costs], dtype=float)
    marks = marks or [f"query {ledger.queries + i}" for i in range(len(rows))]
    heard, admitted = ledger.hear(rows, marks)
    return heard.astype(int).tolist(), admitted


def test_a_part_is_heard_where_its_account_holds_the_cost_and_tried_again():
    ledger = opened(epsilon=1.0, parts=2)
    assert hear(ledger, [0.6, 0.1], [0.6, 0.1], [0.3, 0.1]) == ([[1, 1], [0, 1], [1, 1]], 3)
    assert ledger.spent == pytest.approx([0.9, 0.3])
    assert not ledger.stopped


def test_no_account_is_ever_used_up():
    """As in `admit`: what would leave nothing does not fit, and a hair less does."""
    ledger = opened(epsilon=1.0)
    assert hear(ledger, 0.75, 0.25, 0.249999) == ([[1], [0], [1]], 3)
    assert ledger.spent == [0.75 + 0.249999]


def test_a_cost_that_cannot_be_computed_silences_a_part_and_nobody_else():
    for cost in (math.nan, math.inf):
        ledger = opened(parts=2)
        assert hear(ledger, [cost, 0.5], [0.1, 0.1]) == ([[0, 1], [1, 1]], 2)


def test_only_the_budget_stops_who_can_be_silent():
    ledger = opened(epsilon=1e-3, budget=3)
    assert hear(ledger, 0.5, 0.5) == ([[0], [0]], 2)
    assert hear(ledger, 1e-4, 1e-4, 1e-4) == ([[1], [0], [0]], 1)
    assert ledger.stopped and ledger.remaining == 0 and ledger.queries == 5
    assert ledger.spent == [1e-4]


def test_a_silent_part_stands_in_the_row_and_is_charged_nothing():
    journal = Memory()
    ledger = opened(parts=2, journal=journal)
    hear(ledger, [0.7, 0.2], [0.7, 0.2])
    ledger.flush()
    assert [(r["charge"], r["silent"]) for r in journal.rows] == [([0.7, 0.2], []), ([0, 0.2], [0])]


def heard_before(journal, *costs, epsilon=1.0):
    ledger = opened(epsilon=epsilon, journal=journal)
    answered = hear(ledger, *costs)
    ledger.flush()
    return answered


def test_a_replay_hears_whom_it_heard_at_the_same_charge_whatever_the_costs_are_now():
    journal = Memory()
    assert heard_before(journal, 0.6, 0.6, 0.3) == ([[1], [0], [1]], 3)
    rows = list(journal.rows)
    ledger = opened(journal=journal)
    assert hear(ledger, 0.9, 0.1, 0.3) == ([[1], [0], [1]], 3)
    ledger.flush()
    assert journal.rows == rows and ledger.spent == pytest.approx([0.9])
    assert hear(ledger, 0.2, 0.05) == ([[0], [1]], 2)


def test_another_question_meets_accounts_that_hold_all_that_was_answered():
    """Before it is decided who is heard: else a killed process would pay for its successor."""
    journal = Memory()
    heard_before(journal, 0.3, 0.3, 0.3)
    ledger = opened(journal=journal)
    assert hear(ledger, 0.3, 0.3, 0.05, marks=["query 0", "other", "more"]) == ([[1], [0], [1]], 3)
    assert ledger.spent == pytest.approx([0.95])
    assert ledger.asked == 5


def test_the_same_question_at_another_place_is_no_replay():
    """In a served ledger earlier rows have no place of their own: who was heard is decided anew."""
    journal = Memory()
    heard_before(journal, 0.6)
    served = Memory([{**row, "query": -1} for row in journal.rows])
    ledger = opened(journal=served)
    assert hear(ledger, 0.6, 0.3) == ([[0], [1]], 2)
    assert ledger.spent == pytest.approx([0.9])


def test_a_process_that_had_stopped_leaves_nothing_to_another_question():
    journal = Memory()
    ledger = opened(budget=2, journal=journal)
    hear(ledger, 0.1, 0.1, 0.1)
    ledger.flush()
    ledger = opened(budget=2, journal=journal)
    assert hear(ledger, 0.1, 0.1, marks=["other", "more"]) == ([[0], [0]], 0)
    assert ledger.stopped


@given(
    costs=st.lists(st.floats(0, 2), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=3),
)
def test_no_account_exceeds_its_budget_however_often_a_session_is_killed(costs, cuts):
    """Every process asks other questions from where it was cut, or the same ones."""
    journal = Memory()
    for process, cut in enumerate([0, *cuts]):
        ledger = opened(epsilon=1.0, budget=50, journal=journal)
        marks = [f"{i}" if i < cut else f"{process} {i}" for i in range(len(costs))]
        hear(ledger, *costs, marks=marks)
        ledger.flush()
        charged = [r["charge"][0] for r in journal.rows if not r["stopped"]]
        assert sum(charged) < 1.0 + 1e-12 and len(charged) <= 50
        assert ledger.spent[0] < 1.0
