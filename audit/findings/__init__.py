"""From evidence to measurements: one file per kind of evidence. Coins are joined here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from audit.core.evidence import (
    Divergences,
    Evidence,
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
from audit.findings import hits, likelihoods, mentions, ranks, scores, successes
from audit.findings.case import LEVEL, Case
from audit.findings.charges import Charges
from audit.results.measurement import Measurement

__all__ = ["LEVEL", "Case", "Charges", "measurements_of"]

_BY_KIND: dict[type[Evidence], Any] = {
    Hits: hits.measurements,
    Likelihoods: likelihoods.measurements,
    Mentions: mentions.measurements,
    Ranks: ranks.measurements,
    Scores: scores.measurements,
    Successes: successes.measurements,
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
        places = [i for i, s in enumerate(case.secrets) if one.kind in (None, s.kind)]
        part = replace(case, secrets=tuple(case.secrets[i] for i in places))
        made += _BY_KIND[type(one)](about(one, places), part)
    return made
