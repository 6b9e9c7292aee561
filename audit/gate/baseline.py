"""audit-baseline.json: the measurements of the last accepted run, committed beside the code.

Small, sorted, one metric a line, and without secrets: rates, intervals, claims and the plan.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from audit.core import files
from audit.core.errors import UsageError
from audit.gate.metric import Metric, changes, key, labels, metrics_of, plan_of
from audit.results.numbers import (
    FROM_FILE,
    Number,
    Table,
    Upper,
    check_measured,
    check_once,
    check_outcomes,
    when_read,
)
from audit.results.schema import ReleaseResult, Results, first_error
from audit.results.words import count

FILENAME = "audit-baseline.json"


class Claim(BaseModel):
    """The claim of a release: ε in nats, for this unit, relation, release and basis.

    also: further relations under which it holds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    epsilon: Upper | None
    delta: Upper | None
    alpha: Number | None
    unit: str
    relation: str
    release: str
    basis: str
    also: tuple[str, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """All relations under which ε and δ hold."""
        return (self.relation, *self.also)

    @property
    def promises_nothing(self) -> bool:
        """Whether ε is infinite or unknown."""
        return self.epsilon is None or math.isinf(self.epsilon)


class Entry(BaseModel):
    """One release of the accepted run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    defense: str
    parameters: Table
    seed: int
    claim: Claim
    metrics: tuple[Metric, ...]

    _sound = when_read(lambda entry: _check(entry.metrics))


class Baseline(BaseModel):
    """An accepted run, when it was accepted, and why. It holds no references."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["3"] = "3"
    date: datetime.date
    reason: str
    plan: Table
    releases: tuple[Entry, ...]

    _each_once = when_read(lambda b: check_once((key(entry),) for entry in b.releases))


def _check(metrics: Sequence[Metric]) -> None:
    check_once((metric.name,) for metric in metrics)
    for metric in metrics:
        if not (0 < metric.confidence < 1 and metric.n >= 0):
            raise ValueError(f"{metric.name} has confidence {metric.confidence}, n = {metric.n}")
        check_measured(metric.value, metric.ci, metric.k, metric.n)
        check_outcomes(metric.outcomes, metric.k, metric.n)


def make(results: Results, reason: str, today: datetime.date) -> Baseline:
    """Makes the baseline that accepts these results. Raises UsageError without a reason."""
    if not reason.strip():
        raise UsageError("a baseline needs a reason; give with --reason why these results are fine")
    entries = [_entry(release) for release in results.releases if not release.reference]
    if not entries:
        raise UsageError("the run has only references; a baseline needs an audited release")
    entries.sort(key=key)
    return Baseline(date=today, reason=reason, plan=plan_of(results), releases=tuple(entries))


def claim_of(release: ReleaseResult) -> Claim:
    """Extracts the claim of a release, without its theorem."""
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
        document = files.read_json(path)
        return Baseline.model_validate(document, context=FROM_FILE)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; `audit baseline update` writes one") from None
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error)}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None


def text(baseline: Baseline) -> str:
    """Formats the file so that two baselines differ in as few lines as in values."""
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
    """The first thing that the new baseline allows and the old one does not; None: nothing.

    That is: a larger value, a higher interval, fewer trials or known outcomes, a larger or
    different claim, a metric that is missing or measured differently, a new metric that leaks.
    Other new metrics loosen nothing, but see `grown`.
    """
    changed = changes(old.plan, new.plan)
    if changed:
        return f"the plan changed ({', '.join(changed)}), so the numbers are not comparable"
    entries = {key(entry): entry for entry in new.releases}
    for label, entry in zip(labels(old.releases), old.releases, strict=True):
        if key(entry) not in entries:
            return f"{label} would no longer be checked"
        reason = _looser(entry, entries[key(entry)])
        if reason is not None:
            return f"{label}: {reason}"
    known = {key(entry): {m.name for m in entry.metrics} for entry in old.releases}
    for label, entry in zip(labels(new.releases), new.releases, strict=True):
        for metric in entry.metrics:
            if metric.leaked and metric.name not in known.get(key(entry), ()):
                return f"{label}: {metric.name} would be accepted as a leak"
    return None


def _looser(old: Entry, new: Entry) -> str | None:
    reason = weaker(old.claim, new.claim)
    if reason is not None:
        return reason
    metrics = {metric.name: metric for metric in new.metrics}
    for before in old.metrics:
        after = metrics.get(before.name)
        if after is None:
            return f"{before.name} would no longer be checked"
        reason = _looser_metric(before, after)
        if reason is not None:
            return f"{before.name} {reason}"
    return None


def _looser_metric(before: Metric, after: Metric) -> str | None:
    for name in ("unit", "sides", "confidence", "counted"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            return f"would be measured differently ({name} {was}, then {now})"
    if before.exact != after.exact:
        return "would have another interval, because only one of both sessions may stop"
    if after.leaked and not before.leaked:
        return "would be accepted as a leak"
    was, now = before.strength.value or 0.0, after.strength.value or 0.0
    if now > was and before.comparable:
        return f"would increase from {was:.4g} to {now:.4g}"
    if after.n < before.n:
        return f"would have {after.n} trials, not {before.n}"
    if (
        before.comparable
        and not before.exact
        and _detectable_bound(after) > _detectable_bound(before)
    ):
        return "would have a higher upper bound, or no interval"
    lost = _lost_outcomes(before.outcomes or "", after.outcomes or "")
    return f"would no longer hold the outcome of {lost} secrets" if lost else None


def _detectable_bound(metric: Metric) -> float:
    """The value plus twice its upper margin: some four standard errors.

    If this bound is no higher than before, no increase goes undetected that was detected before,
    at any level that Holm gives to less than a thousand metrics.
    """
    strength = metric.strength
    if strength.value is None or strength.high is None or math.isinf(strength.high):
        return math.inf
    return strength.value + 2 * (strength.high - strength.value)


def _lost_outcomes(before: str, after: str) -> int:
    """The number of secrets whose outcome was known and would not be."""
    after = after if len(after) == len(before) else "-" * len(before)
    return sum(now == "-" != was for was, now in zip(before, after, strict=True))


def accepted(new: Baseline) -> str:
    """The leaks that the baseline accepts, by name; empty where it accepts none."""
    pairs = zip(labels(new.releases), new.releases, strict=True)
    leaks = [f"{label} {m.name} ({m.shown})" for label, e in pairs for m in e.metrics if m.leaked]
    return f"accepts {count(len(leaks), 'leak')}: {', '.join(leaks)}" if leaks else ""


def grown(old: Baseline, new: Baseline) -> str | None:
    """A note on what new metrics cost the old ones under Holm's correction; None: nothing."""
    was, now = (sum(len(entry.metrics) for entry in b.releases) for b in (old, new))
    if now <= was:
        return None
    return (
        f"{now} metrics, {was} before: if the policy checks all of them, each must increase more "
        "to fail; name the few that matter in [regression] metrics"
    )


def weaker(old: Claim, new: Claim) -> str | None:
    """How the new claim is weaker than the old one, or different; None where it is neither."""
    for name in ("unit", "release", "basis", "alpha"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            return f"the claim's {name} changed from {was} to {now}"
    for relation in old.relations:
        if relation not in new.relations:
            return f"the claim held for {relation}, now for {' and '.join(new.relations)}"
    if old.promises_nothing:
        return None
    unit = f"per {new.unit} ({new.relation})"
    if new.epsilon is None:
        return f"the claimed ε {unit} is now unknown"
    for name, was, now in (
        ("ε", old.epsilon or 0.0, new.epsilon),
        ("δ", old.delta or 0.0, new.delta or 0.0),
    ):
        if now > was:
            return f"the claimed {name} {unit} increased from {was:.6g} to {now:.6g}"
    return None
