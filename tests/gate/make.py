"""Results made by hand, with the intervals that a real run would have."""

from __future__ import annotations

import datetime
from typing import Any

from audit.findings import guesses
from audit.results.measurement import measured
from audit.results.schema import (
    Control,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    Results,
)
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import no_interval
from audit.statistics.roc import auc
from audit.statistics.stopped_rate import Series, stopped_rate
from tests import by_hand

TODAY = datetime.date(2030, 6, 15)
LOST = "Of 128 planted code copies 0 were trained on (128 missing)."


def claim(epsilon: float | None = 2.0, **changes: Any) -> GuaranteeResult:
    return by_hand.guarantee(epsilon, **{"delta": 1e-5, **changes})


def stopped(k: int, n: int = 100, cut: bool = False) -> FindingResult:
    """A rate of a session that its answers can end."""
    return rate(k, n).changed(cut=cut, **measured(stopped_rate([Series(k, n)])))


def rate(k: int | None, n: int = 100, metric: str = "hit_rate", **changes: Any) -> FindingResult:
    """A rate of k hits in n trials; None: not measured."""
    fields: dict[str, Any] = {
        "metric": metric,
        **measured(clopper_pearson(k, n) if k is not None else no_interval(0, 0.95, "none")),
        "k": k,
        "chance": 1e-5,
        "control": Control(value=0.0, ci=(0.0, 0.0362), k=0, n=100),
        "p_value": 0.5,
        "power": Power(smallest_rate=0.03, largest_epsilon=3.0, effect=0.25, found=0.9, n=n),
        "leaked": "no leak found" if k is not None else "not measured",
        "kinds": ("code",),
        **changes,
    }
    if k is not None:  # where a test names no other, it is the only one of its release
        fields.setdefault("adjusted_p", fields["p_value"])
    return by_hand.finding(**fields)


def area(members: Any, controls: Any, metric: str = "record_loss_auc") -> FindingResult:
    """An AUC of two rows of scores."""
    one = rate(0, metric=metric, attack="membership", unit="AUC", sides=2, chance=0.5, control=None)
    return one.changed(k=None, **measured(auc(members, controls)))


def bound(value: float, **changes: Any) -> EpsilonLower:
    return by_hand.bound(value, **{"m": None, "guesses": None, **changes})


def measure(value: float, low: float, high: float) -> Measure:
    return Measure(value=value, ci=(low, high), n=40, method="bootstrap", unit="perplexity")


def release(defense: str, *judged: FindingResult, **changes: Any) -> ReleaseResult:
    promise = changes.get("guarantee", claim())
    found = [
        f.changed(guesses_p=guesses.p_value(f))
        if f.guesses_p is None and f.epsilon_lower is not None and guesses.test_claim(f, promise)
        else f
        for f in judged
    ]
    fields: dict[str, Any] = {
        "parameters": {"k": 8},
        "guarantee": promise,
        "utility": {},
        "cost": Cost(train_tokens=1, queries=1, seconds=1.0),
        **changes,
    }
    made: ReleaseResult = by_hand.release(defense, promise, *found, **fields)
    return made


def run(*releases: ReleaseResult, **changes: Any) -> Results:
    plan = {
        "hash": "1f3a",
        "seed": 0,
        "corpus": {"name": "helpdesk"},
        "attacks": [{"name": "extraction", "parameters": {"generations": 100}}],
        "planting": {"users": 120},
    }
    fields = {"headline": ["A headline."], "not_tested": [], "warnings": [],
              "reproduce": "audit run", "plan": plan, "environment": {}}  # fmt: skip
    return by_hand.run(*releases, **{**fields, **changes})
