"""Observations of one attack in a session with a release, and the measurements made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.core.evidence import from_json
from audit.findings import Case, measurements_of, tests_of
from audit.findings.adjusted import Adjusted, adjusted
from audit.findings.charges import charged
from audit.findings.rejections import Family
from audit.results.measurement import Measurement
from audit.results.schema import GuaranteeResult
from audit.statistics.retossed import Crossed
from audit.statistics.tossed import Tossed


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
        case = self.case
        if self.charges is not None:
            case = replace(case, charges=charged(guarantee, self.charges, self.budget))
        return measurements_of(map(from_json, self.seen), case)

    def tests(self) -> dict[str, Tossed]:
        """Make its tests that are functions of scores and coins."""
        return tests_of(map(from_json, self.seen), self.case)


def of_release(attacked: Sequence[Attacked], family: Family) -> list[Measurement]:
    """Measure what all attacks saw on one release, with p-values adjusted for each other."""
    return look_at(attacked, family).measurements


def look_at(
    attacked: Sequence[Attacked], family: Family, before: Crossed | None = None
) -> Adjusted:
    """Measure one look at a release. before: as `adjusted` takes it, which raises ValueError."""
    if not attacked:
        return Adjusted([], Crossed(np.zeros(0, dtype=bool), 1))
    case = attacked[0].case
    assert case.guarantee is not None
    return adjusted(
        [one for seen in attacked for one in seen.measurements()],
        {name: test for seen in attacked for name, test in seen.tests().items()},
        case.heads,
        GuaranteeResult.of(case.guarantee),
        family,
        case.seed,
        before,
    )
