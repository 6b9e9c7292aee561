"""States how much text stands with several users, and what a guarantee for one user is for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.core.terms import Unit
from audit.corpora.shared_text import SharedText, shared_text
from audit.prepare.run import Run
from audit.results.schema import GuaranteeResult, ReleaseResult
from audit.results.words import at_most


def text_of_several(run: Run) -> SharedText | None:
    """Count the text that users share; None of simulated people, or where they share nothing."""
    if run.plan.corpus.embedded or not run.plan.corpus.records:
        return None
    shared = shared_text(run.before_coins)
    return shared if shared.sentence else None


def lines(run: Run, releases: Sequence[ReleaseResult]) -> Iterator[str]:
    """Yield what is shared, and for each guarantee of a user that of a group."""
    shared = text_of_several(run)
    if shared is None:
        return
    yield shared.sentence
    for release in releases:
        groups = [of_group(release.guarantee, n) for n in sorted({2, max(2, shared.users)})]
        if all(groups):
            yield (
                f"{release.defense}: ε is of one user; text of n users is protected as a group of "
                f"n users: {', '.join(groups)}"
            )


def of_group(claim: GuaranteeResult, n: int) -> str:
    """State (ε, δ) of a group of n users: nε and δ(e^(nε) − 1)/(e^ε − 1); "" without a claim."""
    epsilon, delta = claim.epsilon, claim.delta
    if not epsilon or math.isinf(epsilon) or delta is None:
        return ""
    if claim.unit != Unit.USER or claim.basis != "worst case":
        return ""
    growth = math.expm1(min(700.0, n * epsilon)) / math.expm1(min(700.0, epsilon))
    grown = delta * growth if n * epsilon < 700 else float(delta > 0)
    if grown >= 1:
        return f"none for {n}"
    return f"{at_most(n * epsilon)} nats at δ = {at_most(grown)} for {n}"
