"""Sentences in the guarantees of ensembles."""

from __future__ import annotations

import math

from audit.core.rules import Rule

# nearer to 1 the divergence cancels to 0
ORDER = Rule("at least 1.01 and finite", lambda alpha: 1.01 <= alpha < math.inf)

# conditions of claims on emptied parts, and per user
EMPTIED = (
    "a part is emptied where all its users are gone, its model is the public model, and the other "
    "parts stay: another relation than removed, where k − 1 parts are left; the two are never "
    "ranked"
)
FIXED_USERS = (
    "which users are private is fixed beforehand, or, where a corpus names no splits, by a hash of "
    "each user's own id or only text, so that one user more moves no other; in a corpus of so few "
    "users that the hash holds out nobody, it may move one other, and the claim does not hold"
)
PER_USER = (
    "per user (added, removed, or with other records under the same id; a user replaced by one "
    "with another id is two changes, which this does not bound)"
)
READ_ALONE = (
    "each model is read on its own, so its numbers, and what its part is charged, do not depend on "
    "the other models"
)
READ_ALIKE = (
    "taken for granted: the numbers of the other models do not depend on who is read with them; in "
    "float32 they may differ by 1e-5 nats, which is not in ε"
)
ONE_TOKEN = (
    "each query releases one sampled token; the auditor alone reads whole distributions, for "
    "perplexity, which the guarantee does not cover"
)


def each_session(budget: int) -> str:
    """State how the ε of several sessions compose."""
    return (
        "each session spends a budget of its own: the ε of several sessions add up "
        f"({budget} queries each)"
    )


def randomness(source: str) -> str:
    """State the condition on who may know the randomness of a session."""
    if source == "system":
        return "noise and sampled tokens come from the operating system's entropy"
    return (
        "Noise and sampled tokens are derived from the run's texts and the seed stored in "
        "results.json, so the guarantee holds only against someone who does not know both, and a "
        "small seed is easy to guess. For a real release use source=system."
    )
