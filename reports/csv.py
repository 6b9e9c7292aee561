"""findings.csv: one row a finding, for spreadsheets and data frames; formulas are defused."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from audit.results import FindingResult, ReleaseResult, Results

FILENAME = "findings.csv"
_FORMULA = tuple("=+-@\t\r＝＋－＠")
_COLUMNS = (
    "plan_hash", "corpus", "defense", "parameters", "seed", "reference", "role",
    "claimed_epsilon", "claimed_delta", "claimed_alpha", "claimed_unit", "claimed_relation",
    "claimed_release", "claimed_basis", "attack", "metric", "access", "unit", "value",
    "ci_low", "ci_high", "confidence", "method", "k", "n", "chance", "twins_value",
    "twins_ci_low", "twins_ci_high", "twins_k", "twins_n", "p_value", "epsilon_lower",
    "epsilon_lower_method", "epsilon_lower_hypothesis", "epsilon_lower_unit",
    "epsilon_lower_relation", "epsilon_lower_delta", "epsilon_lower_confidence",
    "power_smallest_rate", "power_largest_epsilon", "stronger_than_release", "verdict",
    "sentence",
)  # fmt: skip


def write(results: Results, folder: Path) -> Path:
    """Writes findings.csv into `folder`."""
    from reports._page import inert

    clean = inert(results)
    path = folder / FILENAME
    found = [(release, finding) for release in clean.releases for finding in release.findings]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for release, finding in found:
            row = _row(clean, release, finding)
            writer.writerow([_cell(row[column]) for column in _COLUMNS])
    return path


def _row(results: Results, release: ReleaseResult, finding: FindingResult) -> dict[str, Any]:
    guarantee, control, lower = release.guarantee, finding.control, finding.epsilon_lower
    bounds, twins = _ends(finding.ci), _ends(control.ci if control else None)
    row: dict[str, Any] = {
        "plan_hash": results.plan.get("hash"),
        "corpus": results.corpus.name,
        "parameters": json.dumps(release.parameters, ensure_ascii=False),
        "ci_low": bounds[0],
        "ci_high": bounds[1],
        "twins_value": control.value if control else None,
        "twins_ci_low": twins[0],
        "twins_ci_high": twins[1],
        "twins_k": control.k if control else None,
        "twins_n": control.n if control else None,
        "epsilon_lower": lower.value if lower else None,
        "power_smallest_rate": finding.power.smallest_rate,
        "power_largest_epsilon": finding.power.largest_epsilon,
    }
    for name in ("epsilon", "delta", "alpha", "unit", "relation", "release", "basis"):
        row[f"claimed_{name}"] = getattr(guarantee, name)
    for name in ("method", "hypothesis", "unit", "relation", "delta", "confidence"):
        row[f"epsilon_lower_{name}"] = getattr(lower, name) if lower else None
    for name in ("defense", "seed", "reference", "role"):
        row[name] = getattr(release, name)
    for name in _COLUMNS:
        if name not in row:
            row[name] = getattr(finding, name)
    return row


def _ends(bounds: tuple[float, float] | None) -> tuple[float | None, float | None]:
    return (None, None) if bounds is None else bounds


def _cell(value: Any) -> str | int | float:
    """Numbers as they are, null empty, infinity "inf", and no text that opens a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return "inf" if math.isinf(value) else value
    text = str(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
