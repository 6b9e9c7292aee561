"""findings.csv: one row a finding, for spreadsheets and data frames; formulas are defused."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from audit.results.schema import Control, EpsilonLower, FindingResult, ReleaseResult, Results
from reports import Format, Report
from reports._content import sweep_rows

FILENAME = "findings.csv"
_FORMULA = tuple("=+-@\t\r＝＋－＠")
_COLUMNS = (
    "plan_hash", "corpus", "defense", "parameters", "seed", "reference", "role",
    "claimed_epsilon", "claimed_delta", "claimed_alpha", "claimed_unit", "claimed_relation",
    "claimed_release", "claimed_basis", "attack", "metric", "access", "unit", "value",
    "ci_low", "ci_high", "confidence", "method", "k", "n", "chance", "twins_value",
    "twins_ci_low", "twins_ci_high", "twins_k", "twins_n", "blind_value", "blind_ci_low",
    "blind_ci_high", "blind_n", "p_value", "sides", "epsilon_lower", "epsilon_lower_method",
    "epsilon_lower_hypothesis", "epsilon_lower_unit", "epsilon_lower_relation",
    "epsilon_lower_delta", "epsilon_lower_confidence", "epsilon_lower_m", "epsilon_lower_guesses",
    "epsilon_lower_rank", "epsilon_lower_space", "epsilon_lower_n", "claim_test_mechanism",
    "claim_test_m", "claim_test_r", "claim_test_v", "claim_test_p_value",
    "charge_test_queries", "charge_test_exceeded", "charge_test_p_value",
    "power_smallest_rate", "power_detectable_rate", "power_largest_epsilon",
    "stronger_than_release", "leaked", "sentence", "claim", "claim_sentence",
)  # fmt: skip
_CLAIM = ("epsilon", "delta", "alpha", "unit", "relation", "release", "basis")
_LOWER = ("method", "hypothesis", "unit", "relation", "delta", "confidence",
          "m", "rank", "space", "n")  # fmt: skip
_TEST = ("mechanism", "m", "r", "v", "p_value")
_CHARGES = ("queries", "exceeded", "p_value")
_POWER = ("smallest_rate", "detectable_rate", "largest_epsilon")


@dataclass(frozen=True)
class Csv(Format):
    """Findings as a table, a row each; of a sweep, its measures as well."""

    def files(self, report: Report) -> dict[str, bytes]:
        results = report.results
        found = [
            _row(results, release, f) for release in results.releases for f in release.findings
        ]
        tables = {FILENAME: _table(_COLUMNS, found)}
        if results.sweep is not None:
            tables[sweep_rows.FILENAME] = _table(sweep_rows.COLUMNS, sweep_rows.rows(results))
        return tables


def _table(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return file.getvalue().encode("utf-8")


def _row(results: Results, release: ReleaseResult, finding: FindingResult) -> dict[str, Any]:
    lower = finding.epsilon_lower
    row: dict[str, Any] = {
        "plan_hash": results.plan.get("hash"),
        "corpus": results.corpus.name,
        "parameters": json.dumps(release.parameters, ensure_ascii=False),
        "epsilon_lower": lower.value if lower else None,
        **dict(zip(("ci_low", "ci_high"), _ends(finding.ci), strict=True)),
        **_control("twins", finding.control),
        **_control("blind", finding.blind),
        **{f"claimed_{name}": getattr(release.guarantee, name) for name in _CLAIM},
        **{f"epsilon_lower_{name}": getattr(lower, name, None) for name in _LOWER},
        "epsilon_lower_guesses": _guesses(lower),
        **{f"claim_test_{name}": getattr(finding.claim_test, name, None) for name in _TEST},
        **{f"charge_test_{name}": getattr(finding.charge_test, name, None) for name in _CHARGES},
        **{f"power_{name}": getattr(finding.power, name) for name in _POWER},
        **{name: getattr(release, name) for name in ("defense", "seed", "reference", "role")},
    }
    return {name: row[name] if name in row else getattr(finding, name) for name in _COLUMNS}


def _guesses(lower: EpsilonLower | None) -> str | None:
    """Write the guesses of each test of a bound, as in `71 of 80; 9 of 10`."""
    if lower is None or lower.guesses is None:
        return None
    return "; ".join(f"{right} of {guessed}" for guessed, right in lower.guesses)


def _control(side: str, control: Control | None) -> dict[str, Any]:
    low, high = _ends(control.ci if control else None)
    row = {f"{side}_ci_low": low, f"{side}_ci_high": high}
    return row | {f"{side}_{name}": getattr(control, name, None) for name in ("value", "k", "n")}


def _ends(bounds: tuple[float, float] | None) -> tuple[float | None, float | None]:
    return (None, None) if bounds is None else bounds


def _cell(value: Any) -> str | int | float:
    """Keep numbers, leave null empty, write infinity as "inf", and defuse formulas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return "inf" if math.isinf(value) else value
    return defused(str(value))


def defused(text: str) -> str:
    """Keep a spreadsheet from computing what only looks like a formula."""
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
