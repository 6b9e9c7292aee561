"""Findings made by hand, and both answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audit.core.guarantee import Guarantee
from audit.core.secret import KINDS
from audit.core.terms import Shown
from audit.findings import bounds, guesses
from audit.findings.adjusted import adjusted
from audit.findings.controls import BY_CONTROL
from audit.findings.rejections import Family
from audit.findings.shows import Shows, silence_over
from audit.findings.verdict import claim_overall, judge
from audit.results.joined import leaked_overall
from audit.results.measurement import Measurement, measured
from audit.results.schema import (
    ChargeTest,
    Control,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    SessionResult,
)
from audit.results.silence import Link
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval

LEAK, NONE = 1e-9, 0.5  # p-values
SENSITIVE = {("extraction", "hit_rate"): True}
REACHED = Link(state=Shown.SHOWN, by="counted by hand", n=100)
R = 66  # guesses over 100 coins
ALL = R  # right of them: ε ≥ 3.06 at δ = 0, the most that so many can show
MOST = 50  # of them: ε ≥ 0.6
HALF = 33  # of them: nothing


def bound(v: int, delta: float, **changes: Any) -> EpsilonLower:
    """The empirical ε of v right guesses."""
    found = EpsilonLower(
        value=0.0, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=delta, m=100, guesses=[(R, v)],
    )  # fmt: skip
    return found.changed(value=bounds.at_delta(found, found.delta), **changes)


def finding(
    p: float | None = LEAK, v: int | None = ALL, delta: float = 1e-6, **changes: Any
) -> Measurement:
    seen = changes.pop("interval", clopper_pearson(30, 100))
    fields: dict[str, Any] = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        **measured(seen),
        "kinds": ("code",),
        "observation": "30 of 100 generations were planted secrets; 0 were twins'.",
        "k": 30,
        "chance": 0.25,
        "control": Control(value=0.0, ci=(0.0, 0.04), k=0, n=100),
        "p_value": p,
        "test": f"test of {changes.get('metric', 'hit_rate')}",
        "epsilon_lower": None if v is None else bound(v, delta),
        "power": Power(
            smallest_rate=0.0295,
            detectable_rate=0.0466,
            largest_epsilon=3.06,
            effect=0.25,
            found=0.93,
            n=100,
        ),
    }
    return Measurement(**{**fields, **changes})


def charged(share: float | None, queries: int = 129, **test: Any) -> Measurement:
    """What the ledger attack finds: a share of a charge, or the wealth of a bet."""
    metric = "bet_on_charges" if "p_value" in test else "largest_share_of_charge"
    return finding(
        None, None, attack="ledger", metric=metric, unit="times its charge", k=None, chance=None,
        control=None, interval=Interval(share, share, share, queries, 0.95, "exact"), test=metric,
        observation="" if share is None else "As charged.",
        untested="it needs a ledger" if share is None else "",
        charge_test=ChargeTest(queries=queries, **test),
        power=Power(smallest_rate=None, largest_epsilon=None, n=queries),
    )  # fmt: skip


def promise(epsilon: float | None, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "unit": "user", "relation": "add_or_remove", "release": "model", "basis": "worst case",
        "theorem": "a theorem", "delta": 1e-6,
    }  # fmt: skip
    return Guarantee(epsilon=epsilon, **{**fields, **changes})


def judged(
    findings: Sequence[Measurement],
    guarantee: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None = SENSITIVE,
    tests: int = 0,
    claims: int = 0,
) -> list[FindingResult]:
    """Both answers to all findings of one release."""
    claim, family = GuaranteeResult.of(guarantee), Family(tests, claims)
    return judge(by_holm(findings, claim, family), claim, shows(sensitive), family)


def by_holm(findings: Sequence[Measurement], claim: Guarantee, family: Family) -> list[Measurement]:
    """Findings with adjusted p-values, where no toss is at hand: Holm, and Bonferroni's guesses."""
    done = adjusted(findings, {}, np.ones(1, dtype=bool), claim, family, 0).measurements
    tests = max(family.tests, len({f.test for f in findings}))
    return [
        f.changed(guesses_p=min(1.0, tests * guesses.p_value(f)))
        if guesses.test_claim(f, claim)
        else f
        for f in done
    ]


def shows(sensitive: Mapping[tuple[str, str], bool] | None) -> Shows:
    """Contact, and sight where the positive control leaked; None: there is no control."""
    control = (
        None
        if sensitive is None
        else {name: REACHED.changed(by=BY_CONTROL) for name, leaks in sensitive.items() if leaks}
    )
    return Shows(dict.fromkeys(KINDS, REACHED)).beside(control)


def answered(
    given: Measurement,
    guarantee: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None = SENSITIVE,
) -> FindingResult:
    """Both answers to the only finding of a release."""
    (result,) = judged([given], guarantee, sensitive)
    return result


def released(
    defense: str,
    guarantee: Guarantee,
    findings: list[Measurement],
    perplexity: float,
    **changes: Any,
) -> ReleaseResult:
    """A release with these findings."""
    spent, sensitive = changes.pop("spent", []), changes.pop("sensitive", SENSITIVE)
    session = SessionResult(
        purpose="utility", queries=9, answered=9, budget=None, remaining=None, stopped_at=None,
        epsilon_spent=spent,
    )  # fmt: skip
    measure = Measure(value=perplexity, ci=None, n=9, method="by hand", unit="perplexity")
    results = judged(findings, guarantee, sensitive)
    return ReleaseResult(
        defense=defense, parameters={}, seed=0,
        **{"role": "audited", "reference": False, **changes},
        guarantee=GuaranteeResult.of(guarantee),
        utility={"perplexity": measure},
        cost=Cost(train_tokens=0, queries=9, seconds=0.0),
        sessions=[session, session.model_copy(update={"epsilon_spent": spent[:1]})],
        findings=results,
        leaked=leaked_overall(results),
        claim=claim_overall(results, guarantee),
        silence=silence_over(results),
    )  # fmt: skip
