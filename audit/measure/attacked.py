"""What one attack saw in its session with a release, and the findings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from audit.core.evidence import from_json
from audit.findings import Case, Finding, findings_of
from audit.findings.charges import charged


@dataclass(frozen=True)
class Attacked:
    """One attack on one release: the coins, what it saw, and what it was charged.

    seen: the evidence, each as `audit.core.evidence.to_json` gives it. charges: shape (queries,
    parts), nats, of the answered queries; None where the attack does not read its ledger.
    budget: queries that the session allows; None: no limit.
    """

    case: Case
    seen: list[dict[str, Any]]
    charges: list[list[float]] | None = None
    budget: int | None = None

    def findings(self) -> list[Finding]:
        """Joins the coins and, for evidence on a ledger, the charges."""
        guarantee = self.case.guarantee
        assert guarantee is not None
        ledger = None
        if self.charges is not None:
            ledger = charged(guarantee, self.charges, self.budget)
        found = findings_of(map(from_json, self.seen), self.case, ledger)
        if guarantee.release != "text":
            return found
        # whoever has the texts has all that it takes: the model was trained on them
        return [replace(finding, access="text") for finding in found]
