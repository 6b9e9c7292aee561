"""From evidence to measurements: one file per kind of evidence. Coins are joined here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

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
    about,
)
from audit.findings import charges as ledgers
from audit.findings import exhibits, hits, likelihoods, mentions, ranks, scores, successes
from audit.findings.case import Case
from audit.findings.charges import Charges
from audit.results.joined import LEVEL
from audit.results.measurement import Measurement
from audit.statistics.tossed import Tossed

__all__ = ["LEVEL", "Case", "Charges", "measurements_of", "tests_of"]

_BY_KIND: dict[type[Evidence], Any] = {
    Exhibits: exhibits.measurements,
    Hits: hits.measurements,
    Likelihoods: likelihoods.measurements,
    Mentions: mentions.measurements,
    Ranks: ranks.measurements,
    Scores: scores.measurements,
    Successes: successes.measurements,
}
_TESTS: dict[type[Evidence], Any] = {
    Hits: hits.tests,
    Likelihoods: likelihoods.tests,
    Mentions: mentions.tests,
    Scores: scores.tests,
    Successes: successes.tests,
}
_ON_LEDGERS: dict[type[Evidence], Any] = {
    Divergences: ledgers.from_divergences,
    LogRatios: ledgers.from_log_ratios,
}


def measurements_of(
    evidence: Iterable[Evidence], case: Case, charges: Charges | None = None
) -> list[Measurement]:
    """Compute what one attack measured on one release. charges: of its ledger, if it has one."""
    made: list[Measurement] = []
    for one in evidence:
        if type(one) in _ON_LEDGERS:
            made += _ON_LEDGERS[type(one)](one, case, charges)
            continue
        made += _BY_KIND[type(one)](*_part(one, case))
    return made


def tests_of(evidence: Iterable[Evidence], case: Case) -> dict[str, Tossed]:
    """Make the tests of what one attack measured that are functions of scores and coins."""
    made: dict[str, Tossed] = {}
    for one in evidence:
        if type(one) in _TESTS:
            made |= _TESTS[type(one)](*_part(one, case))
    return made


def _part(evidence: Evidence, case: Case) -> tuple[Evidence, Case]:
    """Restrict evidence and case to the secrets that it is about."""
    places = [i for i, s in enumerate(case.secrets) if evidence.kind in (None, s.kind)]
    part = replace(case, secrets=tuple(case.secrets[i] for i in places))
    return about(evidence, places), part
