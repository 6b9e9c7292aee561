"""audit-baseline.json: what the last accepted run measured, committed beside the code.

Small, sorted, one metric a line, and free of secrets: rates, intervals, claims and the plan.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from audit.errors import UsageError
from audit.gate.metric import Metric, changes, key, labels, metrics_of, plan_of
from audit.results import Number, ReleaseResult, Results, Table, Upper

FILENAME = "audit-baseline.json"


class Claim(BaseModel):
    """What was claimed: ε in nats, for this unit, relation, release and basis."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epsilon: Upper | None
    delta: Upper | None
    alpha: Number | None
    unit: str
    relation: str
    release: str
    basis: str


class Entry(BaseModel):
    """One release of the accepted run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    defense: str
    parameters: Table
    seed: int
    claim: Claim
    metrics: tuple[Metric, ...]


class Baseline(BaseModel):
    """The accepted run, when it was accepted, and why. References are never in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["1"] = "1"
    date: datetime.date
    reason: str
    plan: Table
    releases: tuple[Entry, ...]


def make(results: Results, reason: str, today: datetime.date) -> Baseline:
    """The baseline that accepts these results. Raises UsageError without a reason."""
    if not reason.strip():
        raise UsageError("a baseline needs a reason; say with --reason why these results are fine")
    entries = [_entry(release) for release in results.releases if not release.reference]
    if not entries:
        raise UsageError("the run has no release but references; there is nothing to hold it to")
    entries.sort(key=key)
    return Baseline(date=today, reason=reason, plan=plan_of(results), releases=tuple(entries))


def claim_of(release: ReleaseResult) -> Claim:
    """The claim of a release, without its theorem."""
    return Claim(**{name: getattr(release.guarantee, name) for name in Claim.model_fields})


def _entry(release: ReleaseResult) -> Entry:
    metrics = metrics_of(release.findings)
    return Entry(
        defense=release.defense,
        parameters=release.parameters,
        seed=release.seed,
        claim=claim_of(release),
        metrics=tuple(metrics[name] for name in sorted(metrics)),
    )


def load(path: Path) -> Baseline:
    """Reads a baseline. Raises UsageError if it is missing, broken or of another version."""
    try:
        return Baseline.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; `audit baseline update` writes one") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None


def text(baseline: Baseline) -> str:
    """The file's text; two baselines differ in as few lines as they differ in values."""
    document = baseline.model_dump()  # as Python: JSON mode refuses a lone surrogate
    releases = document.pop("releases")
    document["date"] = baseline.date.isoformat()
    head = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)[:-2]
    return f'{head},\n "releases": [\n' + ",\n".join(map(_release, releases)) + "\n ]\n}\n"


def _release(entry: dict[str, Any]) -> str:
    metrics = entry.pop("metrics")
    head = [f"   {_line(name)}: {_line(value)}" for name, value in sorted(entry.items())]
    rows = ",\n".join(f"    {_line(metric)}" for metric in metrics)
    measured = f"[\n{rows}\n   ]" if rows else "[]"
    return "  {\n" + ",\n".join([*head, f'   "metrics": {measured}']) + "\n  }"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def loosened(old: Baseline, new: Baseline) -> str | None:
    """The first thing that the new baseline would allow and the old one does not; None: nothing.

    A larger value, fewer trials, a larger or another claim, or anything that is no longer there.
    """
    changed = changes(old.plan, new.plan)
    if changed:
        return f"the plan changed ({', '.join(changed)}), and so what the numbers mean"
    entries = {key(entry): entry for entry in new.releases}
    for label, entry in zip(labels(old.releases), old.releases, strict=True):
        if key(entry) not in entries:
            return f"{label} would no longer be held to anything"
        reason = _looser(entry, entries[key(entry)])
        if reason is not None:
            return f"{label}: {reason}"
    return None


def _looser(old: Entry, new: Entry) -> str | None:
    reason = weaker(old.claim, new.claim)
    if reason is not None:
        return reason
    metrics = {metric.name: metric for metric in new.metrics}
    for before in old.metrics:
        after = metrics.get(before.name)
        if after is None:
            return f"{before.name} would no longer be held to anything"
        was, now = before.strength.value or 0.0, after.strength.value or 0.0
        if now > was:
            return f"{before.name} would rise from {was:.4g} to {now:.4g}"
        if after.n < before.n:
            return f"{before.name} would rest on {after.n} trials, not {before.n}"
    return None


def weaker(old: Claim, new: Claim) -> str | None:
    """How the new claim promises less than the old, or something else; None where it does not."""
    for name in ("unit", "relation", "release", "basis", "alpha"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            return f"the claim's {name} changed from {was} to {now}"
    for name, was, now in (
        ("ε", old.epsilon, new.epsilon),
        ("δ", old.delta or 0.0, new.delta or 0.0),
    ):
        if (was is None) != (now is None):
            known = "unknown" if now is None else f"{now:.4g}"
            return f"the claimed {name} per {new.unit} ({new.relation}) is now {known}"
        if was is not None and now is not None and now > was:
            return (
                f"the claimed {name} per {new.unit} ({new.relation}) rose from {was:.6g} to "
                f"{now:.6g}"
            )
    return None
