"""A whole run, with every kind of value in it."""

import math

from audit.results.schema import (
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

GUARANTEE = {
    "epsilon": 2.0,
    "delta": None,
    "alpha": 2.0,
    "unit": "part",
    "relation": "removed",
    "release": "predictions",
    "basis": "data-dependent",
    "theorem": "t",
    "conditions": ["c"],
    "published_epsilon": None,
}


def finding(**changes):
    fields = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        "value": 0.01,
        "ci": (0.0, 0.03),
        "confidence": 0.95,
        "method": "Clopper-Pearson",
        "kind": "clopper_pearson",
        "k": 1,
        "n": 100,
        "chance": 1e-5,
        "control": Control(value=0.0, ci=(0.0, 0.03), k=0, n=100),
        "p_value": 0.2,
        "epsilon_lower": EpsilonLower(
            value=0.894672, method="one_run", hypothesis="none", unit="user",
            relation="add_or_remove", delta=1e-3, m=9, guesses=[(9, 9)],
        ),
        "power": Power(smallest_rate=0.03, largest_epsilon=None, n=100),
        "leaked": "inconclusive",
        "sentence": "Nothing ☺.",
        "claim": "not testable",
        "claim_sentence": "No test.",
    }  # fmt: skip
    fields |= {**changes, "adjusted_p": changes.get("p_value", fields["p_value"])}
    return FindingResult(**{**fields, **changes})


def document(**changes):
    """A whole run, with every kind of value in it."""
    release = {
        "defense": "submix",
        "parameters": {"k": 8, "beta": None},
        "seed": 0,
        "reference": False,
        "role": "audited",
        "guarantee": GuaranteeResult(**GUARANTEE),
        "utility": {
            "perplexity": Measure(
                value=20.123456789, ci=(19.0, math.inf), n=7, method="bootstrap", unit="perplexity"
            )
        },
        "cost": Cost(train_tokens=1, queries=2, seconds=0.5),
        "sessions": [
            SessionResult(
                purpose="utility", queries=3, answered=2, budget=9, remaining=6, stopped_at=2,
                epsilon_spent=[0.1, 0.2], spent_curve=[(1, 0.1), (2, 0.2)],
            )
        ],
        "findings": [
            finding(),
            finding(
                metric="tpr", value=None, ci=None, k=None, control=None, epsilon_lower=None,
                leaked="not measured",
            ),
        ],
        "leaked": "inconclusive",
        "claim": "not testable",
    }  # fmt: skip
    whole = {
        "status": "complete",
        "headline": ["h"],
        "not_tested": [],
        "warnings": [],
        "reproduce": "audit run",
        "plan": {"hash": "a"},
        "environment": {},
        "corpus": CorpusResult(
            name="c", sha256="a", records=1, users=1, near_duplicates=0, planted_users=1,
            trained_users=1, twins=0,
        ),
        "releases": [ReleaseResult(**{**release, **changes})],
    }  # fmt: skip
    return Results(**whole)
