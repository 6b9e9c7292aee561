"""Tests a claim on the trade-off curve of its mechanism, where the mechanism is known.

Derivation: docs/methods/claims-on-a-trade-off-curve.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from audit.accounting import Mechanism, claimed_mechanism, curve_of, described, sigma_upper
from audit.core.secret import OWN
from audit.core.terms import Relation, Unit
from audit.findings import bounds
from audit.findings.case import Case
from audit.results.joined import LEVEL
from audit.results.schema import ClaimTest
from audit.statistics import claim_curve, claim_guesses


def presence(scores: Mapping[str, float], case: Case) -> ClaimTest | None:
    """Test the claim by who is present, from one score per owner; None where no curve is known.

    The guesses are those of `bounds.presence`, their number fixed by claim, coins and level.
    """
    mechanism = _mechanism(case, Relation.ADD_OR_REMOVE)
    if mechanism is None or len(scores) < 2:
        return None
    rule, critical = _rule(mechanism, len(scores), case)
    right = bounds.right(rule, bounds.ranked(scores, case))
    return _tested(mechanism, len(scores), rule.count, right, critical)


def _rule(mechanism: Mechanism, coins: int, case: Case) -> tuple[bounds.Guesses, int | None]:
    """Choose the guesses, and how many right ones refute the claim."""
    level = LEVEL / case.claim_tests
    each, critical = claim_guesses.guess_count(curve_of(mechanism), coins, level)
    return bounds.Guesses(each, both=True), critical


def rules(coins: int, case: Case) -> list[bounds.Guesses]:
    """List the guesses that test the claim: its curve's where that is known, or the bound's."""
    mechanism = _mechanism(case, Relation.ADD_OR_REMOVE)
    return bounds.rules(coins) if mechanism is None else [_rule(mechanism, coins, case)[0]]


def which_value(right: int, owners: int, case: Case) -> ClaimTest | None:
    """Test the claim by which of two values is planted, every owner guessed."""
    mechanism = _mechanism(case, Relation.REPLACE)
    if mechanism is None or not owners:
        return None
    level = LEVEL / case.claim_tests
    critical = claim_guesses.least_rejected(curve_of(mechanism), owners, owners, level)
    return _tested(mechanism, owners, owners, right, critical)


def coins_needed(case: Case) -> int | None:
    """Compute how many coins it takes to refute the claim of an engine without noise; None where
    no curve is known, or none within reach do."""
    mechanism = _mechanism(case, Relation.ADD_OR_REMOVE)
    if mechanism is None:
        return None
    return claim_guesses.coins_needed(curve_of(mechanism), LEVEL / case.claim_tests)


def refutable(case: Case, coins: int) -> bool | None:
    """Return whether so many coins could refute the claim; None where no curve is known."""
    mechanism = _mechanism(case, Relation.ADD_OR_REMOVE)
    if mechanism is None:
        return None
    _, critical = claim_guesses.guess_count(curve_of(mechanism), coins, LEVEL / case.claim_tests)
    return critical is not None


def _mechanism(case: Case, relation: str) -> Mechanism | None:
    """Derive the mechanism that one coin sees.

    A claim per record would need the number of sampler rows that a coin decides, which depends on
    how the trainer cuts its texts. It is tested by its ε and δ alone. So is one of whose size no N
    is known that was fixed before the coins of real users.
    """
    if case.guarantee is None or case.guarantee.unit != Unit.USER:
        return None
    if case.guarantee.population is None and any(s.kind == OWN for s in case.secrets):
        return None
    claimed = claimed_mechanism(case.guarantee, case.unit, relation)
    return claimed if isinstance(claimed, Mechanism) else None


@lru_cache(maxsize=4096)  # measures that make the same guesses share the test
def _tested(
    mechanism: Mechanism, coins: int, guesses: int, right: int, critical: int | None
) -> ClaimTest:
    curve = curve_of(mechanism)
    p_value, least = (claim_curve.p_value(curve, coins, guesses, v) for v in (right, guesses))
    return ClaimTest(
        mechanism=described(mechanism),
        m=coins,
        r=guesses,
        v=right,
        p_value=p_value,
        least_p=least,
        critical=critical,
        noise_at_most=sigma_upper(mechanism, coins, guesses, right, LEVEL)
        if p_value < LEVEL
        else None,
    )
