"""Bets on lots of people: what they count as, and how often they err, whoever stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from audit import findings
from audit.core.guarantee import no_guarantee
from audit.core.terms import Leaked
from audit.findings import bets
from audit.findings.adjusted import adjusted
from audit.findings.case import Case
from audit.findings.rejections import Family
from audit.findings.shows import Shows, shown
from audit.findings.verdict import judge
from audit.results.joined import LEVEL, leaked_overall
from audit.results.measurement import Measurement
from audit.results.schema import GuaranteeResult
from audit.scores.given import Sides
from audit.scores.judged import KIND, Model

LOTS, PEOPLE = 10, 100
CLAIM = no_guarantee("tests")
HALF = np.arange(PEOPLE) < PEOPLE // 2  # who is in


def family_of(case: Case) -> Family:
    return Family(case.tests, case.claim_tests).in_lots(LOTS)


def measured(
    scores: np.ndarray, lots: int = LOTS, seed: int = 0, inside: int = PEOPLE // 2
) -> list[Measurement]:
    """Measurements of the people of the first so many lots. inside: of all, the first so many."""
    model = Model(Sides(scores[:inside], scores[inside:]), CLAIM, 1e-5, seed)
    family = family_of(model.case)
    case = replace(model.case, lots=LOTS, tests=family.tests, claim_tests=family.claims)
    seen = bets.lots_of(PEOPLE, LOTS, seed) < lots
    evidence = [replace(model.evidence, values=np.where(seen, scores, np.nan))]
    found, tests = findings.measurements_of(evidence, case), findings.tests_of(evidence, case)
    return adjusted(found, tests, case.heads, model.guarantee, family, seed).measurements


def leaking(strength: float, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=PEOPLE) + strength * HALF


def of_bets(made: list[Measurement]) -> Measurement:
    return next(filter(bets.is_bet, made))


def test_lots_are_of_equal_size_and_fixed_by_the_seed() -> None:
    dealt = bets.lots_of(PEOPLE, LOTS, 3)
    assert np.bincount(dealt).tolist() == [PEOPLE // LOTS] * LOTS
    assert (dealt == bets.lots_of(PEOPLE, LOTS, 3)).all()
    assert (dealt != bets.lots_of(PEOPLE, LOTS, 4)).any()
    assert sorted(np.bincount(bets.lots_of(27, LOTS, 0))) == [2, 2, 2, 3, 3, 3, 3, 3, 3, 3]


def test_stopped_audit_tests_by_bets_alone() -> None:
    made = measured(leaking(3.0), lots=3)
    bet = of_bets(made)
    assert bet.sizes == (10, 10, 10, *[0] * 7) and bet.n == 30
    assert bets.asked([bet]) == 3 and bets.stopped(made, LOTS)
    assert bet.value is not None and bet.value > 40
    assert bet.adjusted_p == pytest.approx(2 / bet.value, rel=1e-5)
    assert bet.look_p == bet.p_value == pytest.approx(1 / bet.value, rel=1e-5)  # grey by itself
    others = [m for m in made if not bets.is_bet(m)]
    assert others and all(m.p_value is None and m.adjusted_p is None for m in others)
    assert all(m.epsilon_lower is None and m.claim_test is None for m in others)


def shown_all(made: list[Measurement]) -> Shows:
    """Contact and sight of all measures."""
    sight = {(m.attack, m.metric): shown("seen", 99) for m in made}
    return Shows({KIND: shown("there", 99)}, sight)


def overall(made: list[Measurement]) -> Leaked:
    case = Model(Sides(np.zeros(50), np.ones(50)), CLAIM, 1e-5, 0).case
    return leaked_overall(judge(made, CLAIM, shown_all(made), family_of(case)))


def test_stopped_audit_says_no_silence_whatever_was_shown() -> None:
    """Contact and sight of all measures change nothing: no test of all people was made."""
    made = measured(leaking(3.0), lots=9)
    case = Model(Sides(np.zeros(50), np.ones(50)), CLAIM, 1e-5, 0).case
    judged = judge(made, CLAIM, shown_all(made), family_of(case))
    others = {f.leaked for f in judged if not bets.is_bet(f)}
    assert others <= {Leaked.INCONCLUSIVE, Leaked.NOT_MEASURED}
    assert leaked_overall(judged) == Leaked.LEAK
    assert overall(measured(leaking(0.0))) == Leaked.NONE_FOUND  # it can be said of all people


def test_last_lot_without_scores_is_not_a_stop() -> None:
    """A server may refuse all of them: nothing was decided, so the others are tested."""
    made = measured(leaking(0.0), lots=9)
    assert bets.asked([of_bets(made)]) == 9 and not bets.stopped(made, LOTS)
    assert any(m.p_value is not None for m in made if not bets.is_bet(m))
    assert {m.untested for m in made} == {""}


def test_owner_of_several_secrets_is_bet_on_once() -> None:
    """Evidence on all kinds at once has several scores of one coin."""
    model = Model(Sides(leaking(1.0)[:50], leaking(1.0)[50:]), CLAIM, 1e-5, 0)
    alone = replace(model.case, lots=LOTS)
    more = tuple(
        replace(secret, kind="code", value=f"c {secret.value}") for secret in alone.secrets
    )
    both = replace(alone, secrets=(*alone.secrets, *more))
    one = bets.measurement(model.evidence, alone)
    values = np.tile(model.evidence.values, 2)
    two = bets.measurement(replace(model.evidence, kind=None, values=values), both)
    assert (two.value, two.n, two.sizes) == (one.value, PEOPLE, one.sizes)


def test_whole_audit_tests_all_people_at_half_the_level() -> None:
    scores = leaking(0.5, seed=3)
    made, alone = measured(scores), Model(Sides(scores[HALF], scores[~HALF]), CLAIM, 1e-5, 0)
    one = {m.metric: m for m in alone.measurements()[0]}
    assert not bets.stopped(made, LOTS)
    for m in made:
        if not bets.is_bet(m):
            p = one[m.metric].adjusted_p
            assert (m.adjusted_p is None) is (p is None)
            assert p is None or (m.adjusted_p or 0.0) >= min(1.0, 1.7 * p), m
            assert (m.epsilon_lower is None) is (one[m.metric].epsilon_lower is None)
    assert min(m.adjusted_p for m in made if m.adjusted_p) > min(
        m.adjusted_p for m in one.values() if m.adjusted_p
    )


def adaptive(draws: np.random.Generator, coins: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Scores that depend on no coin of their own lot: of eight, the best of earlier lots."""
    each = draws.normal(size=(8, PEOPLE))
    scores = np.array(each[0])
    for lot in range(1, LOTS):
        before = dealt < lot
        apart = each[:, before] @ np.where(coins[before], 1.0, -1.0)
        scores[dealt == lot] = each[apart.argmax()][dealt == lot]
    return scores


def errs(seed: int, again: bool) -> bool:
    """Whether bets on coins that nothing depends on ever reach their level.

    again: each look bets on all people so far, and what it wins is multiplied: what is not done.
    """
    from audit.statistics.coin_bets import wealth

    draws, dealt = np.random.default_rng(seed), bets.lots_of(PEOPLE, LOTS, seed)
    coins = draws.random(PEOPLE) < 0.5
    scores = adaptive(draws, coins, dealt)
    looks = [wealth(scores[s], coins[s], 0 * dealt[s]) for s in (dealt <= i for i in range(LOTS))]
    if again:
        return bool((np.cumprod(looks) >= 1 / LEVEL).any())
    seen = [dealt <= lot for lot in range(LOTS)]
    return any(wealth(scores[s], coins[s], dealt[s]) >= 1 / LEVEL for s in seen)


@pytest.mark.parametrize("runs", [80, pytest.param(1000, marks=pytest.mark.calibration)])
def test_adaptive_scores_and_the_worst_stop_err_at_most_at_the_level(runs: int) -> None:
    limit = LEVEL * runs + 2.33 * (LEVEL * (1 - LEVEL) * runs) ** 0.5
    assert sum(errs(seed, again=False) for seed in range(runs)) <= limit
    if runs > 80:  # why nobody is bet on twice
        assert sum(errs(seed, again=True) for seed in range(runs)) > limit


@pytest.mark.calibration
def test_whole_path_calls_a_leak_by_chance_in_one_audit_of_twenty() -> None:
    """Bets on every lot, and then the tests of all people: whoever may stop, stops."""
    draws, runs, found = np.random.default_rng(2), 400, 0
    for run in range(runs):
        inside = int(draws.binomial(PEOPLE, 0.5))  # whose places the lots draw: coins are fair
        coins = np.arange(PEOPLE) < inside
        scores = adaptive(draws, coins, bets.lots_of(PEOPLE, LOTS, run))
        looks = (of_bets(measured(scores, lot, run, inside)) for lot in range(1, LOTS))
        whole = measured(scores, LOTS, run, inside)
        p = min(m.adjusted_p for m in whole if m.adjusted_p is not None)
        found += p <= LEVEL or any((bet.adjusted_p or 1.0) <= LEVEL for bet in looks)
    assert found <= LEVEL * runs + 2.33 * (LEVEL * (1 - LEVEL) * runs) ** 0.5


def test_score_that_nobody_has_yet_counts_with_its_stake() -> None:
    """Else it would join late with 1, and lift the mean of scores that have lost."""
    (bet,) = filter(bets.is_bet, measured(leaking(3.0), lots=3))
    assert bet.value is not None
    ((_, p),) = bets.adjusted([bet], planned=3).items()
    assert p == pytest.approx(3 / (bet.value + 2))
    family = replace(
        family_of(Model(Sides(np.zeros(50), np.ones(50)), CLAIM, 1e-5, 0).case), bets=3
    )
    (done,) = adjusted([bet], {}, HALF, GuaranteeResult.of(CLAIM), family, 0).measurements
    assert done.adjusted_p == pytest.approx(2 * p, rel=1e-5)
