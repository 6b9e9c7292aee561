"""Compares the run with the baseline: nothing missing, nothing worse, and the same plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial

from audit.findings import bets
from audit.gate import increase_test
from audit.gate.baseline import Baseline, Entry, weaker
from audit.gate.identity import changes, key, plan_of, retrained
from audit.gate.matching import Releases
from audit.gate.outcome import Check, State
from audit.gate.policy import Regression
from audit.gate.strength import UNTRAINED, comparable, doubt, measured_in, shown, strength
from audit.results.labels import labels
from audit.results.measurement import Measurement
from audit.results.schema import FindingResult, ReleaseResult, Results
from audit.statistics.holm import adjusted_p_values

_check = partial(Check, "regression")


Pair = tuple[str, Measurement, FindingResult]  # the release, and one measurement before and now


def checks(
    results: Results, releases: Releases, baseline: Baseline, rule: Regression
) -> list[Check]:
    """Check plan, claims and metrics against the baseline.

    Where the plan changed, an increase still fails but nothing passes: the numbers may be about
    other secrets or another training.
    """
    changed = changes(baseline.plan, plan_of(results))
    checks = [_plan(results, baseline, changed), *_unmatched(releases, baseline, rule)]
    now = {key(release): (label, release) for label, release in releases}
    pairs: list[Pair] = []
    for old, entry in zip(labels(baseline.releases), baseline.releases, strict=True):
        if key(entry) in now:
            label, release = now.pop(key(entry))
            checks.append(_claim(label, entry, release))
            unpaired, both = _paired(label, entry, release, rule)
            checks, pairs = checks + unpaired, pairs + both
        else:
            gone = f"{_described(entry)} is in the baseline but not in the run"
            checks.append(_check(old, "", State.FAIL, gone))
    for label, _ in now.values():
        new = "not in the baseline; `audit baseline update` would add it"
        checks.append(_check(label, "", State.INCONCLUSIVE, new))
    return checks + _increases(pairs, rule, bool(changed))


def same_plan(results: Results, baseline: Baseline | None) -> Baseline | None:
    """Return the baseline whose accepted leaks hold; None where its plan is not that of the run.

    A leak was accepted of this corpus, these secrets, this model and this training: of one that was
    trained elsewhere, of these weights.
    """
    if baseline is None:
        return None
    before, after = baseline.plan, plan_of(results)
    return None if changes(before, after) or retrained(before, after) else baseline


def accepted(release: ReleaseResult, baseline: Baseline | None, rule: Regression) -> dict[str, str]:
    """List what allows a leak by name, by `attack.metric`: that the baseline accepted it as one.

    baseline: as `same_plan` returns it. Whether a leak has grown is tested by `checks`; one that is
    not compared may not grow at all.
    """
    entries = () if baseline is None else baseline.releases
    own = [entry for entry in entries if key(entry) == key(release)]
    now = measured_in(release.findings)
    return {
        before.name: "the baseline"
        for entry in own
        for before in entry.measurements
        if before.name in entry.leaks
        and (_compared(before, rule) or not _grown(before, now.get(before.name)))
    }


def _compared(one: Measurement, rule: Regression) -> bool:
    return rule.gates(one.name) and comparable(one)


def _grown(before: Measurement, after: Measurement | None) -> bool:
    if after is None:
        return False
    return (strength(after).value or 0.0) > (strength(before).value or 0.0)


def _unmatched(releases: Releases, baseline: Baseline, rule: Regression) -> Iterator[Check]:
    """Fail for each pattern of the rule that matches no metric: it may be misspelt."""
    known = {one.name for entry in baseline.releases for one in entry.measurements}
    known |= {name for _, release in releases for name in measured_in(release.findings)}
    for pattern in rule.metrics:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = get_close_matches(pattern, sorted(known), n=3, cutoff=0.4) or sorted(known)[:3]
            hint = f"; nearest: {', '.join(near)}" if near else ""
            sentence = f"[regression] metrics: no metric matches {pattern!r}{hint}"
            yield _check("", pattern, State.FAIL, sentence, rule.line)


def _plan(results: Results, baseline: Baseline, changed: Sequence[str]) -> Check:
    accepts = any(entry.leaks for entry in baseline.releases)
    refused = "the leaks that it accepts are not accepted here"
    if changed:
        sentence = (
            f"differs from the baseline: {', '.join(changed)}; the measurements are not comparable"
            f"{f', and {refused}' if accepts else ''}. If this is intended, run `audit baseline "
            "update`"
        )
        return Check("plan", "", "", State.INCONCLUSIVE, sentence)
    sentence = "corpus, secrets and plan are those of the baseline"
    if accepts and retrained(baseline.plan, plan_of(results)):
        sentence += f"; the model that was trained elsewhere is another one, so {refused}"
    return Check("plan", "", "", State.PASS, sentence)


def _described(entry: Entry) -> str:
    values = ", ".join(f"{name}={value}" for name, value in sorted(entry.parameters.items()))
    return f"{entry.defense} ({values + ', ' if values else ''}seed {entry.seed})"


def _claim(label: str, entry: Entry, release: ReleaseResult) -> Check:
    reason = weaker(entry.claim, release.guarantee)
    state = State.PASS if reason is None else State.FAIL
    return _check(label, "claim", state, reason or "the claim is no weaker than in the baseline")


def _paired(
    label: str, entry: Entry, release: ReleaseResult, rule: Regression
) -> tuple[list[Check], list[Pair]]:
    """Check for metrics that are missing or new, and the pairs of all the rest."""
    now = measured_in(release.findings)
    checks: list[Check] = []
    pairs: list[Pair] = []
    for before in entry.measurements:
        if not _compared(before, rule):
            continue
        after = now.get(before.name)
        if after is None:
            gone = "in the baseline, but not measured in the run"
            checks.append(_check(label, before.name, State.FAIL, gone))
        elif after.unit != before.unit:
            other = f"measured in {after.unit}, in the baseline in {before.unit}"
            checks.append(_check(label, before.name, State.INCONCLUSIVE, other))
        elif after.untested == bets.STOPPED:  # whose number followed from their coins
            checks.append(_check(label, before.name, State.INCONCLUSIVE, bets.STOPPED))
        else:
            pairs.append((label, before, after))
    for name in sorted(set(now) - {before.name for before in entry.measurements}):
        if _compared(now[name], rule):
            new = "measured, but not in the baseline"
            checks.append(_check(label, name, State.INCONCLUSIVE, new))
    return checks, pairs


def _increases(pairs: Sequence[Pair], rule: Regression, changed: bool) -> list[Check]:
    """Check each pair for an increase, Holm-adjusted over all gated metrics of the build."""
    if not pairs:
        return []

    if changed:  # the secrets may differ, so their outcomes cannot be paired
        pairs = [(label, before.changed(outcomes=None), after) for label, before, after in pairs]
    p_values = [increase_test.p_value(before, after) for _, before, after in pairs]
    adjusted = adjusted_p_values([1.0 if p is None else p for p in p_values])
    level = rule.level / len(pairs)  # what the smallest p-value must be below
    return [
        _increase(pair, float(p), rule, level, changed)
        for pair, p in zip(pairs, adjusted, strict=True)
    ]


def _increase(pair: Pair, p: float, rule: Regression, level: float, changed: bool) -> Check:
    label, before, after = pair
    paired = "" if increase_test.paired(before, after) is None else "paired, "
    test = f"{paired}adjusted p = {p:.2g}"
    seen = f"{shown(before)} before, {shown(after)} now"
    state, increased = State.INCONCLUSIVE, p < rule.level
    larger = increase_test.increase(before, after) >= rule.min_delta
    if increased and larger:
        state, sentence = State.FAIL, f"increased: {seen} ({test})"
    elif not increased and not increase_test.can_detect(before, after, level):
        sentence = f"{seen}: too few trials to be sure of detecting any increase"
    elif why := UNTRAINED if before.untrained else doubt(after):
        sentence = f"{seen}: {why}"
    elif changed:
        sentence = f"{seen}: no{' larger' if increased else ''} increase, but the plan changed"
    elif increased:
        allowed = f"which min_delta = {rule.min_delta:g} allows"
        state, sentence = State.PASS, f"increased, {allowed}: {seen} ({test})"
    else:
        sentence = f"no increase detected: {seen} ({test})"
        least = increase_test.detectable(before, after, level, rule.min_delta)
        if least is not None:
            sentence += f"; an increase to {least:.4g} would have been detected"
        if least is not None or increase_test.is_largest(before):
            state = State.PASS
        else:
            sentence += "; too few trials to be sure of detecting an increase"
    return _check(label, before.name, state, sentence)
