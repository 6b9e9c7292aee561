"""Results made by hand: one ordinary run, and one in which every string is hostile."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from audit.results import (
    Control,
    CorpusResult,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    Results,
    SessionResult,
)

HOSTILE = (
    '=cmd|"/C calc"!A1 <script>alert(1)</script> <img src=//evil.example/x onerror=alert(1)> '
    '</style></title> #eval("1+1") $x^2$ {{7*7}} \x1b[31m \u202eexe.gnp \u2066 \x00 \ud800 \u200b '
    "javascript:alert(1) 中文 العربية " + "A" * 90
)
KEPT = {"verdict", "schema_version", "status"}


def guarantee(epsilon: float | None, **changes: Any) -> GuaranteeResult:
    fields: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": None,
        "alpha": None,
        "unit": "user",
        "relation": "add_or_remove",
        "release": "model",
        "basis": "worst case",
        "theorem": "a theorem",
        "conditions": [],
        "published_epsilon": None,
    }
    return GuaranteeResult(**{**fields, **changes})


def finding(value: float | None = 0.0, **changes: Any) -> FindingResult:
    fields: dict[str, Any] = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        "value": value,
        "ci": None if value is None else (max(0.0, value - 0.05), min(1.0, value + 0.0362)),
        "confidence": 0.95,
        "method": "Clopper-Pearson, two-sided",
        "k": None if value is None else round(100 * value),
        "n": 100,
        "chance": 6e-4,
        "control": Control(value=0.0, ci=(0.0, 0.0301), k=0, n=98),
        "p_value": 0.25,
        "epsilon_lower": None,
        "power": Power(smallest_rate=0.0295, largest_epsilon=3.67, n=100),
        "verdict": "silent",
        "sentence": "A sentence about it.",
    }
    return FindingResult(**{**fields, **changes})


def release(defense: str, claim: GuaranteeResult, *found: FindingResult, **changes: Any) -> Any:
    perplexity = Measure(
        value=12.4, ci=(9.92, 14.9), n=17, method="bootstrap", unit="perplexity", answered=1024
    )
    fields: dict[str, Any] = {
        "defense": defense,
        "parameters": {"k": 8, "beta": 0.001953125},
        "seed": 0,
        "reference": False,
        "role": "audited",
        "guarantee": claim,
        "utility": {"perplexity": perplexity},
        "cost": Cost(train_tokens=512345, queries=1524, seconds=14.2),
        "sessions": [],
        "findings": list(found),
    }
    return ReleaseResult(**{**fields, **changes})


def run(*releases: ReleaseResult, **changes: Any) -> Results:
    fields: dict[str, Any] = {
        "status": "complete",
        "headline": "submix: no leak found by extraction.",
        "not_tested": ["STOP timing was not attacked"],
        "warnings": ["releases of one corpus compose"],
        "reproduce": "audit run --defense submix --attack extraction",
        "plan": {"model": {"name": "embedded"}, "hash": "1f3a9c2e"},
        "environment": {"audit": "0.1.0"},
        "corpus": CorpusResult(
            name="helpdesk",
            sha256="ab12",
            records=1540,
            users=190,
            near_duplicates=3,
            planted_users=120,
            trained_users=61,
            twins=59,
        ),
        "releases": list(releases),
    }
    return Results(**{**fields, **changes})


def ordinary() -> Results:
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
    session = SessionResult(
        purpose="extraction",
        queries=900,
        answered=812,
        budget=1024,
        remaining=212,
        stopped_at=812,
        epsilon_spent=[0.31, 1.46],
        spent_curve=[(0, 0.0), (400, 0.7), (812, 1.46)],
    )
    bound = EpsilonLower(
        value=2.61,
        method="one_run",
        hypothesis="none",
        unit="user",
        relation="add_or_remove",
        delta=1e-5,
        m=120,
        r=119,
        v=116,
    )
    auc = {"attack": "membership", "metric": "auc", "unit": "area under the curve", "chance": 0.5}
    return run(
        release(
            "submix",
            guarantee(2.0, **part, conditions=["the partition is fixed"], published_epsilon=4.91),
            finding(0.0),
            finding(0.613, **auc, verdict="not comparable", ci=(0.55, 0.68)),
            sessions=[session],
        ),
        release(
            "none",
            guarantee(math.inf),
            finding(0.96, verdict="consistent", epsilon_lower=bound),
            finding(None, **auc, verdict="not measured", control=None),
            reference=True,
            role="positive control",
        ),
        release("as_is", guarantee(None), finding(0.5, verdict="inconclusive")),
        release("dp_sgd", guarantee(8.0, delta=1e-5), finding(0.4, verdict="refuted")),
        release(
            "public", guarantee(0.0), finding(0.0), reference=True, role="null control"
        ),
    )  # fmt: skip


def poisoned(tree: Any, key: str = "") -> Any:
    if isinstance(tree, str):
        return tree if key in KEPT or tree == "inf" else HOSTILE
    if isinstance(tree, dict):
        return {name: poisoned(value, name) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [poisoned(value, key) for value in tree]
    return tree


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The builders, for tests that need results of their own."""
    return SimpleNamespace(guarantee=guarantee, finding=finding, release=release, run=run)


@pytest.fixture(scope="session")
def results() -> Results:
    return ordinary()


@pytest.fixture(scope="session")
def hostile() -> Results:
    document = poisoned(ordinary().model_dump())
    document["plan"][HOSTILE] = HOSTILE
    document["releases"][0]["parameters"][HOSTILE] = [HOSTILE, {"a": HOSTILE}]
    document["environment"][HOSTILE] = None
    return Results.model_validate(document)


@pytest.fixture(scope="session")
def unfinished() -> Results:
    return run(status="partial", not_tested=[], warnings=[], plan={}, environment={})
