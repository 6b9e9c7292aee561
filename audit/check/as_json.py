"""An examination as JSON. Infinity is the string "inf"; NaN is null."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from audit.check.examination import Examination
from audit.check.outcome import Outcome


def text(examined: Examination) -> str:
    """Write what was stated, every check, the claim, and whether all of it passed."""
    document = {
        "engine": examined.engine,
        "stated": asdict(examined.stated),
        "passed": examined.passed,
        "checks": [_check(outcome) for outcome in examined.outcomes],
        "claim": {**asdict(examined.claim), "refuted": examined.claim.refuted},
    }
    return json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _check(outcome: Outcome) -> dict[str, Any]:
    check = outcome.check
    named = {"check": check.code, "name": check.title, "means": check.means}
    return named | {key: value for key, value in vars(outcome).items() if key != "check"}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
