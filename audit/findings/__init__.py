"""From evidence to measurements: one file per kind of evidence. Coins are joined here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

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
)
from audit.core.secret import Secret
from audit.findings import charges as ledgers
from audit.findings import exhibits, hits, likelihoods, mentions, ranks, scores, successes
from audit.findings.case import Case, Charges
from audit.findings.rejections import NONE, Family
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement
from audit.statistics.tossed import Tossed

__all__ = ["LEVEL", "Case", "Charges", "family_of", "measurements_of", "tests_of"]


class _Kind(NamedTuple):
    """Computes what follows from one kind of evidence.

    tests: those that are functions of scores and coins. family: the most tests that findings on
    evidence of a shape make.
    """

    measurements: Callable[[Any, Case], list[Measurement]]
    tests: Callable[[Any, Case], dict[str, Tossed]] = lambda evidence, case: {}
    family: Callable[[Any, Sequence[Secret]], Family] = lambda evidence, secrets: NONE


def _always(tests: int, claims: int, tossed: int) -> Callable[[Any, Sequence[Secret]], Family]:
    return lambda evidence, secrets: Family(tests, claims, tossed)


_KINDS: dict[type[Evidence], _Kind] = {
    # of the values, and the guesses
    Hits: _Kind(hits.measurements, hits.tests, _always(2, 1, 1)),
    Mentions: _Kind(mentions.measurements, mentions.tests, _always(2, 1, 2)),
    Likelihoods: _Kind(likelihoods.measurements, likelihoods.tests, _always(1, 0, 1)),
    Successes: _Kind(successes.measurements, successes.tests, _always(2, 1, 2)),
    Scores: _Kind(scores.measurements, scores.tests, scores.family),
    Ranks: _Kind(ranks.measurements, family=ranks.family),
    Exhibits: _Kind(exhibits.measurements),  # no coin decides about them
    Divergences: _Kind(ledgers.from_divergences),  # a ledger is tested, not what was planted
    LogRatios: _Kind(ledgers.from_log_ratios),
}


def measurements_of(evidence: Iterable[Evidence], case: Case) -> list[Measurement]:
    """Compute what one attack measured on one release."""
    return [made for one in evidence for made in _KINDS[type(one)].measurements(*case.part(one))]


def tests_of(evidence: Iterable[Evidence], case: Case) -> dict[str, Tossed]:
    """Make the tests of what one attack measured that are functions of scores and coins."""
    made: dict[str, Tossed] = {}
    for one in evidence:
        made |= _KINDS[type(one)].tests(*case.part(one))
    return made


def family_of(shape: Iterable[Evidence], secrets: Sequence[Secret]) -> Family:
    """Add up the most tests that findings on evidence of this shape make, before anything is asked.

    secrets: what the attack was given. Findings that share a test count once.
    """
    each = (
        _KINDS[type(one)].family(one, [s for s in secrets if one.kind in (None, s.kind)])
        for one in shape
    )
    return sum(each, NONE)
