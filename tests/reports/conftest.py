"""Results made by hand, each built once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from audit.results.schema import Measure, Results
from reports._figures import canvas
from tests import by_hand
from tests import by_hand as make


@pytest.fixture(scope="session")
def results() -> Results:
    return by_hand.EVERY["results"]()


@pytest.fixture(scope="session")
def four() -> Results:
    return by_hand.EVERY["four"]()


@pytest.fixture(scope="session")
def hostile() -> Results:
    return by_hand.EVERY["hostile"]()


@pytest.fixture(scope="session")
def hostile_four() -> Results:
    return by_hand.EVERY["hostile_four"]()


@pytest.fixture(scope="session")
def unfinished() -> Results:
    return by_hand.EVERY["unfinished"]()


@pytest.fixture(scope="session")
def sweep() -> Results:
    """Two defenses of different kinds at two ε, one without ε, references; two seeds."""
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}

    def use(value: float) -> dict[str, Measure]:
        common: dict[str, Any] = {"ci": None, "n": 9, "method": "bootstrap"}
        return {
            "perplexity": Measure(value=value, unit="perplexity", **common),
            "bleu4": Measure(value=90 / value, unit="BLEU-4", **common),
            "top1_accuracy": Measure(value=1 / value, unit="share of tokens", **common),
        }

    def one(name: str, claim: Any, found: Any, value: float, **told: Any) -> Any:
        settings = {} if claim.epsilon in (0.0, math.inf) else {"epsilon": claim.epsilon}
        return make.release(name, claim, found, parameters=settings, utility=use(value), **told)

    releases = []
    for seed in (0, 1):
        for e in (1.0, 8.0):
            spent = [make.session(spent_curve=[(0, 0.0), (80, e)])]
            loud = make.finding(0.02, epsilon_lower=make.bound(0.3 + seed), leaked="leak",
                                claim="not refuted")  # fmt: skip
            submix, dp_sgd = make.guarantee(e, **part), make.guarantee(e, delta=1e-5)
            releases += [
                one("submix", submix, make.finding(0.01 * e), 20 / e + seed, seed=seed,
                    sessions=spent),
                one("dp_sgd", dp_sgd, loud, 30 / e + seed, seed=seed),
            ]  # fmt: skip
        nothing, never = make.guarantee(math.inf), make.guarantee(0.0)
        control = {"reference": True, "seed": seed}
        releases += [
            one("redaction", nothing, make.finding(0.1), 3.0, seed=seed),
            one("none", nothing, make.finding(0.9), 2.0, role="positive control", **control),
            one("public", never, make.finding(0.0), 40.0, role="null control", **control),
        ]
    return make.swept(releases, make.run())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawings out of figures, where only words, numbers or places are compared."""
    monkeypatch.setattr(canvas, "drawing", lambda *_: "<svg/>")
    monkeypatch.setattr(by_hand, "_REPORTS", {})
    monkeypatch.setattr(by_hand, "_FILES", {})
