"""From evidence to findings: one file per kind of evidence, chosen here. Coins are joined here."""

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
from audit.findings.charges import Charges
from audit.findings.finding import LEVEL, Case, Finding

__all__ = ["LEVEL", "Case", "Charges", "Finding", "findings_of"]

_BY_KIND: dict[type[Evidence], Any] = {
    Hits: hits.findings,
    Likelihoods: likelihoods.findings,
    Mentions: mentions.findings,
    Ranks: ranks.findings,
    Scores: scores.findings,
    Successes: successes.findings,
}
_ON_LEDGERS: dict[type[Evidence], Any] = {
    Divergences: ledgers.from_divergences,
    LogRatios: ledgers.from_log_ratios,
}


def findings_of(
    evidence: Iterable[Evidence], case: Case, charges: Charges | None = None
) -> list[Finding]:
    """Computes all findings of one attack on one release. charges: of its ledger, if it has one."""
    findings: list[Finding] = []
    for one in evidence:
        if type(one) in _ON_LEDGERS:
            findings += _ON_LEDGERS[type(one)](one, case, charges)
            continue
        places = [i for i, s in enumerate(case.secrets) if one.kind in (None, s.kind)]
        part = replace(case, secrets=tuple(case.secrets[i] for i in places))
        of_kind: list[Finding] = _BY_KIND[type(one)](about(one, places), part)
        findings += [replace(finding, untrained=_untrained(part)) for finding in of_kind]
    return findings


def _untrained(case: Case) -> str:
    """Says which secrets of the evidence's kinds never reached the training."""
    kinds = dict.fromkeys(secret.kind for secret in case.secrets)
    return " ".join(f"{case.lost[kind]}." for kind in kinds if kind in case.lost)
