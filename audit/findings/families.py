"""Count the tests that findings make, from the shape of the evidence, before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from audit.core.evidence import (
    Divergences,
    Evidence,
    Exhibits,
    Hits,
    Likelihoods,
    LogRatios,
    Mentions,
    Ranks,
    Scores,
    Successes,
    is_span,
)
from audit.core.secret import Secret
from audit.findings.low_end import LOW
from audit.findings.rejections import Family

Count = Callable[..., Family]
NONE = Family(0, 0, 0)


def family_of(shape: Iterable[Evidence], secrets: Sequence[Secret]) -> Family:
    """Add up the most tests that findings on evidence of this shape make.

    secrets: what the attack was given. Findings that share a test count once.
    """
    each = (
        _COUNTS[type(one)](one, [s for s in secrets if one.kind in (None, s.kind)]) for one in shape
    )
    return sum(each, NONE)


def _of_ranks(ranks: Ranks, secrets: Sequence[Secret]) -> Family:
    """Count two tests a tier: of all its ranks together, which bounds ε, and of the best one.

    Their null is that values are uniform, which coins thrown again could not test.
    """
    tiers = {(s.copies, s.space.size) for s in secrets if s.space is not None}
    return Family(2 * len(tiers), len(tiers))


def _of_scores(scores: Scores, secrets: Sequence[Secret]) -> Family:
    """Count the AUC's test, the top's and the guesses', those of the low end, the second coin's."""
    choice = int(scores.score == "loss" and is_span(scores.target))
    tossed = 3 + len(LOW) * scores.named
    return Family(tossed + choice, 1 + choice, tossed)


def _always(tests: int, claims: int, tossed: int) -> Count:
    return lambda evidence, secrets: Family(tests, claims, tossed)


_COUNTS: dict[type[Evidence], Count] = {
    Hits: _always(2, 1, 1),  # of the values, and the guesses
    Mentions: _always(2, 1, 2),
    Likelihoods: _always(1, 0, 1),
    Successes: _always(2, 1, 2),
    Ranks: _of_ranks,
    Scores: _of_scores,
    Exhibits: _always(0, 0, 0),  # no coin decides about them
    Divergences: _always(0, 0, 0),  # a ledger is tested, not what depends on planted secrets
    LogRatios: _always(0, 0, 0),
}
