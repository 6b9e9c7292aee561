"""findings.csv: one row a finding, for spreadsheets and data frames; formulas are defused."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.results.part import Strict
from audit.results.schema import FindingResult, ReleaseResult, Results
from reports import Format, Report
from reports._content.releases import seeds_of, setting_labels, settings

FILENAME, SWEEP = "findings.csv", "sweep.csv"
_FORMULA = tuple("=+-@\t\r＝＋－＠")
_FINDINGS = (
    "plan_hash", "corpus", "defense", "parameters", "seed", "reference", "role",
    "claimed_epsilon", "claimed_delta", "claimed_alpha", "claimed_unit", "claimed_relation",
    "claimed_release", "claimed_basis", "attack", "metric", "access", "unit", "value",
    "ci_low", "ci_high", "confidence", "method", "k", "n", "chance", "twins_value",
    "twins_ci_low", "twins_ci_high", "twins_k", "twins_n", "blind_value", "blind_ci_low",
    "blind_ci_high", "blind_n", "p_value", "sides", "adjusted_p", "guesses_p", "withheld",
    "epsilon_lower", "epsilon_lower_method", "epsilon_lower_hypothesis",
    "epsilon_lower_unit", "epsilon_lower_relation",
    "epsilon_lower_delta", "epsilon_lower_confidence", "epsilon_lower_m", "epsilon_lower_guesses",
    "epsilon_lower_rank", "epsilon_lower_space", "epsilon_lower_n", "claim_test_mechanism",
    "claim_test_m", "claim_test_r", "claim_test_v", "claim_test_p_value",
    "charge_test_queries", "charge_test_exceeded", "charge_test_p_value",
    "power_smallest_rate", "power_detectable_rate", "power_largest_epsilon",
    "contact", "sight", "reach",
    "stronger_than_release", "leaked", "sentence", "claim", "claim_sentence",
)  # fmt: skip
_MEASURES = (
    "plan_hash", "corpus", "defense", "setting", "parameters", "seed", "seeds", "reference", "role",
    "epsilon", "claimed_epsilon", "claimed_delta", "claimed_alpha", "claimed_unit",
    "claimed_relation", "claimed_basis", "attack", "metric", "unit", "value", "ci_low",
    "ci_high", "confidence", "k", "n", "method", "epsilon_lower", "leaked", "claim",
    "stronger_than_release",
)  # fmt: skip
_CLAIM = ("epsilon", "delta", "alpha", "unit", "relation", "release", "basis")


@dataclass(frozen=True)
class Csv(Format):
    """Findings as a table, a row each; of a sweep, its measures as well."""

    def files(self, report: Report) -> dict[str, bytes]:
        results = report.results
        found = (
            _of_release(results, release) | {"seed": release.seed} | _of_finding(finding)
            for release in results.releases
            for finding in release.findings
        )
        tables = {FILENAME: table(_FINDINGS, found)}
        if results.sweep is not None:
            tables[SWEEP] = table(_MEASURES, _measures(results))
        return tables


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Write these columns of the rows; a row without one has an empty cell."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return file.getvalue().encode("utf-8")


def _measures(results: Results) -> Iterator[dict[str, Any]]:
    """Make a row for each measure of each seed, then of all seeds together, which name no seed."""
    each, together = results.releases, settings(results)
    seeds = [*([1] * len(each)), *seeds_of(results)]
    names = [*setting_labels(each, "epsilon"), *setting_labels(together, "epsilon")]
    for place, release in enumerate([*each, *together]):
        common = _of_release(results, release) | {
            "setting": names[place],
            "seed": release.seed if place < len(each) else None,
            "seeds": seeds[place],
            "epsilon": release.parameters.get("epsilon"),
        }
        for name, measure in release.utility.items():
            yield common | {"metric": name} | _fields("", measure)
        for finding in release.findings:
            yield common | _of_finding(finding)


def _of_release(results: Results, release: ReleaseResult) -> dict[str, Any]:
    return {
        "plan_hash": results.plan.get("hash"),
        "corpus": results.corpus.name,
        "parameters": json.dumps(release.parameters, ensure_ascii=False),
        **{name: getattr(release, name) for name in ("defense", "reference", "role")},
        **{f"claimed_{name}": getattr(release.guarantee, name) for name in _CLAIM},
    }


def _of_finding(finding: FindingResult) -> dict[str, Any]:
    lower = finding.epsilon_lower
    guesses = lower.guesses if lower else None
    conditions = dict(finding.silence or ())
    return {
        **{name: link.state for name, link in conditions.items()},
        **_fields("", finding),
        **_fields("twins_", finding.control),
        **_fields("blind_", finding.blind),
        **_fields("epsilon_lower_", lower),
        **_fields("claim_test_", finding.claim_test),
        **_fields("charge_test_", finding.charge_test),
        **_fields("power_", finding.power),
        "epsilon_lower": lower.value if lower else None,
        "epsilon_lower_guesses": "; ".join(f"{right} of {n}" for n, right in guesses or ()) or None,
    }


def _fields(prefix: str, part: Strict | None) -> dict[str, Any]:
    """Name the fields of a part of the results, and the ends of its interval."""
    fields = dict(part or ())
    low, high = fields.get("ci") or (None, None)
    return {f"{prefix}{k}": v for k, v in {**fields, "ci_low": low, "ci_high": high}.items()}


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
