"""From evidence to findings: one file for each kind of evidence. Here the coins are joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from audit.core.evidence import (
    Evidence,
    Hits,
    Likelihoods,
    Mentions,
    Ranks,
    Scores,
    Successes,
    about,
)
from audit.findings import hits, likelihoods, mentions, ranks, scores, successes
from audit.findings.finding import LEVEL, Case, Finding

__all__ = ["LEVEL", "Case", "Finding", "findings_of"]

_BY_KIND: dict[type[Evidence], Any] = {
    Hits: hits.findings,
    Likelihoods: likelihoods.findings,
    Mentions: mentions.findings,
    Ranks: ranks.findings,
    Scores: scores.findings,
    Successes: successes.findings,
}


def findings_of(evidence: Iterable[Evidence], case: Case) -> list[Finding]:
    """All findings of one attack on one release."""
    found: list[Finding] = []
    for one in evidence:
        places = [i for i, s in enumerate(case.secrets) if one.kind in (None, s.kind)]
        part = replace(case, secrets=tuple(case.secrets[i] for i in places))
        made: list[Finding] = _BY_KIND[type(one)](about(one, places), part)
        found += [replace(finding, untrained=_untrained(part)) for finding in made]
    return found


def _untrained(case: Case) -> str:
    """What never reached the training, of the kinds that the evidence is about."""
    kinds = dict.fromkeys(secret.kind for secret in case.secrets)
    return " ".join(f"{case.lost[kind]}." for kind in kinds if kind in case.lost)
