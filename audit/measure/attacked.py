"""What one attack saw in its session with a release, and the measurements that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit.core.evidence import from_json
from audit.findings import Case, measurements_of
from audit.findings.charges import charged
from audit.results.measurement import Measurement


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

    def measurements(self) -> list[Measurement]:
        """Join the coins and, for evidence on a ledger, the charges."""
        guarantee = self.case.guarantee
        assert guarantee is not None
        ledger = None
        if self.charges is not None:
            ledger = charged(guarantee, self.charges, self.budget)
        return measurements_of(map(from_json, self.seen), self.case, ledger)
