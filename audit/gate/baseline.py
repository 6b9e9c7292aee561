"""audit-baseline.json: the measurements of the last accepted run, committed beside the code.

Small, sorted, one metric a line, and without secrets: rates, intervals, claims and the plan.
"""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from audit.core import files
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.findings import bets
from audit.findings.verdict import leaks
from audit.gate.identity import changes, key, plan_of, retrained
from audit.gate.policy import has_text
from audit.gate.strength import comparable, counted, exact, measured_in, shown, strength
from audit.results.labels import labels
from audit.results.measurement import Measurement
from audit.results.numbers import FROM_FILE, Table, check_once, refuse, when_read
from audit.results.part import Strict
from audit.results.schema import GuaranteeResult, ReleaseResult, Results, first_error
from audit.results.words import count

FILENAME = "audit-baseline.json"
_METHOD = ("unit", "sides", "confidence")  # what two measurements of one kind share


_KEPT = {  # of a measurement
    *("attack", "metric", "unit", "value", "ci", "confidence", "kind", "sizes", "k", "n", "sides"),
    *("outcomes", "untrained", "space", "cut"),
}  # fmt: skip
_OF_CLAIM = ("epsilon", "delta", "alpha", "unit", "relation", "also", "release", "basis", "theorem")


class Entry(Strict):
    """One release of the accepted run: its claim, what was measured, and which of it was a leak."""

    defense: str
    parameters: Table
    seed: int
    claim: GuaranteeResult
    measurements: tuple[Measurement, ...]
    leaks: tuple[str, ...]

    _sound = when_read(lambda entry: _check(entry))


class Baseline(Strict):
    """An accepted run, when it was accepted, and why. It holds no references."""

    schema_version: Literal["3"] = "3"
    date: datetime.date
    reason: str
    plan: Table
    releases: tuple[Entry, ...]

    _each_once = when_read(lambda b: check_once((key(entry),) for entry in b.releases))


def _check(entry: Entry) -> None:
    check_once((one.name,) for one in entry.measurements)
    for one in entry.measurements:
        refuse(one.value is None, f"{one.name} has no value")
    unknown = set(entry.leaks) - {one.name for one in entry.measurements}
    refuse(bool(unknown), f"{', '.join(sorted(unknown))} leaks, and is not measured")


def make(results: Results, reason: str, today: datetime.date) -> Baseline:
    """Make the baseline that accepts these results.

    Raises UsageError without a reason, and for an audit that stopped at a leak.
    """
    if not has_text(reason):
        raise UsageError("a baseline needs a reason; give with --reason why these results are fine")
    if any(bets.stopped(one.findings, results.plan.get("lots", 1)) for one in results.releases):
        raise UsageError(
            "the audit stopped at a leak, after a part of the people; a baseline needs all of "
            "them: audit without --until decided"
        )
    entries = [_entry(release) for release in results.releases if not release.reference]
    if not entries:
        raise UsageError("the run has only references; a baseline needs an audited release")
    entries.sort(key=key)
    return Baseline(date=today, reason=reason, plan=plan_of(results), releases=tuple(entries))


def _claim(release: ReleaseResult) -> GuaranteeResult:
    """Copy a claim without what is private or long."""
    return replace(
        release.guarantee, conditions=(), accounting=None, phrases=(), teachers_per_user=None
    )


def _entry(release: ReleaseResult) -> Entry:
    findings = measured_in(release.findings)
    return Entry(
        defense=release.defense,
        parameters=release.parameters,
        seed=release.seed,
        claim=_claim(release),
        measurements=tuple(
            Measurement(**findings[name].model_dump(include=_KEPT)) for name in sorted(findings)
        ),
        leaks=tuple(sorted(name for name, finding in findings.items() if leaks(finding))),
    )


def load(path: Path) -> Baseline:
    """Read a baseline. Raises UsageError if it is missing, broken or of another version."""
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
    """Format the file so that two baselines differ in as few lines as in values."""
    document = baseline.model_dump()  # as Python: JSON mode refuses a lone surrogate
    releases = document.pop("releases")
    document["date"] = baseline.date.isoformat()
    head = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)[:-2]
    return f'{head},\n "releases": [\n' + ",\n".join(map(_release, releases)) + "\n ]\n}\n"


def _release(entry: dict[str, Any]) -> str:
    measured = entry.pop("measurements")
    entry["claim"] = {name: entry["claim"][name] for name in _OF_CLAIM}
    head = [f"   {_line(name)}: {_line(value)}" for name, value in sorted(entry.items())]
    kept = ({name: one[name] for name in _KEPT} for one in measured)
    rows = ",\n".join(f"    {_line(one)}" for one in kept)
    listed = f"[\n{rows}\n   ]" if rows else "[]"
    return "  {\n" + ",\n".join([*head, f'   "measurements": {listed}']) + "\n  }"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def loosened(old: Baseline, new: Baseline) -> str | None:
    """Return the first thing that the new baseline allows and the old one does not; None: nothing.

    That is: a larger value, a higher interval, fewer trials or known outcomes, a larger or
    different claim, a metric that is missing or measured differently, a new metric that leaks.
    Other new metrics loosen nothing, but see `grown`.
    """
    changed = changes(old.plan, new.plan)
    if changed:
        return f"the plan changed ({', '.join(changed)}), so the numbers are not comparable"
    anew = retrained(old.plan, new.plan)
    entries = {key(entry): entry for entry in new.releases}
    for label, entry in zip(labels(old.releases), old.releases, strict=True):
        if key(entry) not in entries:
            return f"{label} would no longer be checked"
        reason = _looser(entry.changed(leaks=()) if anew else entry, entries[key(entry)])
        if reason is not None:
            return f"{label}: {reason}"
    known = {key(entry): {one.name for one in entry.measurements} for entry in old.releases}
    for label, entry in zip(labels(new.releases), new.releases, strict=True):
        for name in entry.leaks:
            if name not in known.get(key(entry), ()):
                return f"{label}: {name} would be accepted as a leak"
    return None


def _looser(old: Entry, new: Entry) -> str | None:
    reason = weaker(old.claim, new.claim)
    if reason is not None:
        return reason
    measured = {one.name: one for one in new.measurements}
    for before in old.measurements:
        after = measured.get(before.name)
        if after is None:
            return f"{before.name} would no longer be checked"
        leaks_now = before.name in set(new.leaks) - set(old.leaks)
        reason = _looser_measurement(before, after, leaks_now)
        if reason is not None:
            return f"{before.name} {reason}"
    return None


def _looser_measurement(before: Measurement, after: Measurement, leaks_now: bool) -> str | None:
    for name, was, now in (
        *((name, getattr(before, name), getattr(after, name)) for name in _METHOD),
        ("counted", counted(before), counted(after)),
    ):
        if was != now:
            return f"would be measured differently ({name} {was}, then {now})"
    if exact(before) != exact(after):
        return "would have another interval, because only one of both sessions may stop"
    if leaks_now:
        return "would be accepted as a leak"
    was, now = strength(before).value or 0.0, strength(after).value or 0.0
    if now > was and comparable(before):
        return f"would increase from {was:.4g} to {now:.4g}"
    if after.n < before.n:
        return f"would have {after.n} trials, not {before.n}"
    if (
        comparable(before)
        and not exact(before)
        and _detectable_bound(after) > _detectable_bound(before)
    ):
        return "would have a higher upper bound, or no interval"
    lost = _lost_outcomes(before.outcomes or "", after.outcomes or "")
    return f"would no longer hold the outcome of {lost} secrets" if lost else None


def _detectable_bound(one: Measurement) -> float:
    """Return the value plus twice its upper margin: some four standard errors.

    If this bound is no higher than before, no increase goes undetected that was detected before,
    at any level that Holm gives to less than a thousand metrics.
    """
    seen = strength(one)
    if seen.value is None or seen.high is None or math.isinf(seen.high):
        return math.inf
    return seen.value + 2 * (seen.high - seen.value)


def _lost_outcomes(before: str, after: str) -> int:
    """Return the number of secrets whose outcome was known and would not be."""
    after = after if len(after) == len(before) else "-" * len(before)
    return sum(now == "-" != was for was, now in zip(before, after, strict=True))


def accepted(new: Baseline) -> str:
    """Return the leaks that the baseline accepts, by name; empty where it accepts none."""
    pairs = zip(labels(new.releases), new.releases, strict=True)
    named = [
        f"{label} {one.name} ({shown(one)})"
        for label, entry in pairs
        for one in entry.measurements
        if one.name in entry.leaks
    ]
    return f"accepts {count(len(named), 'leak')}: {', '.join(named)}" if named else ""


def grown(old: Baseline, new: Baseline) -> str | None:
    """Describe what new metrics cost the old ones under Holm's correction; None: nothing."""
    was, now = (sum(len(entry.measurements) for entry in b.releases) for b in (old, new))
    if now <= was:
        return None
    return (
        f"{now} metrics, {was} before: if the policy checks all of them, each must increase more "
        "to fail; name the few that matter in [regression] metrics"
    )


def weaker(old: Guarantee, new: Guarantee) -> str | None:
    """Describe how the new claim is weaker than the old one, or different; None if neither."""
    for name in ("unit", "release", "basis", "alpha"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            return f"the claim's {name} changed from {was} to {now}"
    held = (new.relation, *new.also)
    for relation in (old.relation, *old.also):
        if relation not in held:
            return f"the claim held for {relation}, now for {' and '.join(held)}"
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
