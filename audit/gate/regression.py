"""The run held against the baseline: nothing gone, nothing worse, and compared like with like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from audit.gate import increase_test
from audit.gate.baseline import Baseline, Entry, claim_of, weaker
from audit.gate.metric import UNTRAINED, Metric, changes, key, labels, metrics_of, plan_of
from audit.gate.outcome import Check, State
from audit.gate.policy import Regression
from audit.results.schema import ReleaseResult, Results
from audit.statistics.holm import adjusted_p_values

_ROUNDING = 1e-9  # of a rise: 0.3 − 0.2 is a little less than 0.1


@dataclass(frozen=True)
class Pair:
    """One metric before and now."""

    label: str
    before: Metric
    after: Metric


def checks(
    results: Results,
    releases: Sequence[tuple[str, ReleaseResult]],
    baseline: Baseline,
    held: Regression,
) -> list[Check]:
    """All checks against the baseline. Where the plan changed a rise still fails, but nothing
    passes: the numbers would be about other secrets, or another training."""
    changed = changes(baseline.plan, plan_of(results))
    found = [_plan(changed)]
    now = {key(release): (label, release) for label, release in releases}
    pairs: list[Pair] = []
    for old, entry in zip(labels(baseline.releases), baseline.releases, strict=True):
        if key(entry) in now:
            label, release = now.pop(key(entry))
            found += _claim(label, entry, release)
            gone, both = _paired(label, entry, release, held)
            found, pairs = found + gone, pairs + both
        else:
            told = f"{_told(entry)} is in the baseline but not in the run"
            found.append(Check("regression", old, "", State.FAIL, told))
    for label, _ in now.values():
        said = "not in the baseline; `audit baseline update` would hold it to this run"
        found.append(Check("regression", label, "", State.INCONCLUSIVE, said))
    return found + _rises(pairs, held, bool(changed))


def _plan(changed: Sequence[str]) -> Check:
    if not changed:
        return Check("plan", "", "", State.PASS, "corpus, secrets and plan are the baseline's")
    said = (
        f"not the baseline's: {', '.join(changed)}; what was measured is not comparable. If that "
        "is meant, run `audit baseline update`"
    )
    return Check("plan", "", "", State.INCONCLUSIVE, said)


def _told(entry: Entry) -> str:
    values = ", ".join(f"{name}={value}" for name, value in sorted(entry.parameters.items()))
    return f"{entry.defense} ({values + ', ' if values else ''}seed {entry.seed})"


def _claim(label: str, entry: Entry, release: ReleaseResult) -> list[Check]:
    reason = weaker(entry.claim, claim_of(release))
    state = State.PASS if reason is None else State.FAIL
    return [Check("regression", label, "claim", state, reason or "the claim is no weaker")]


def _paired(
    label: str, entry: Entry, release: ReleaseResult, held: Regression
) -> tuple[list[Check], list[Pair]]:
    """What is gone or new, and what can be compared."""
    metrics = metrics_of(release.findings)
    found, pairs = [], []
    for before in entry.metrics:
        if not held.gates(before.name):
            continue
        after = metrics.get(before.name)
        if after is None:
            said = "in the baseline, but not measured in the run"
            found.append(Check("regression", label, before.name, State.FAIL, said))
        else:
            pairs.append(Pair(label, before, after))
    for name in sorted(set(metrics) - {before.name for before in entry.metrics}):
        if held.gates(name):
            said = "measured, but not in the baseline"
            found.append(Check("regression", label, name, State.INCONCLUSIVE, said))
    return found, pairs


def _rises(pairs: Sequence[Pair], held: Regression, changed: bool) -> list[Check]:
    """Holm over all gated metrics of the build."""
    if not pairs:
        return []

    if changed:  # other secrets, perhaps: nothing can be paired
        pairs = [replace(pair, before=_unpaired(pair.before)) for pair in pairs]
    p_values = [increase_test.p_value(pair.before, pair.after) for pair in pairs]
    adjusted = adjusted_p_values([1.0 if p is None else p for p in p_values])
    first = held.level / len(pairs)  # what the smallest of all p-values must be below
    return [
        _rise(pair, float(p), held, first, changed) for pair, p in zip(pairs, adjusted, strict=True)
    ]


def _unpaired(metric: Metric) -> Metric:
    return metric.model_copy(update={"outcomes": None})


def _rise(pair: Pair, p: float, held: Regression, first: float, changed: bool) -> Check:
    before, after = pair.before, pair.after
    found = (
        f"{'' if increase_test.paired(before, after) is None else 'paired, '}adjusted p = {p:.2g}"
    )
    said = f"{_shown(before)} before, {_shown(after)} now"
    if p < held.level and increase_test.risen(before, after) >= held.min_delta - _ROUNDING:
        state, said = State.FAIL, f"risen: {said} ({found})"
    elif not increase_test.enough(before, after, first):
        state, said = State.INCONCLUSIVE, f"{said}: too few to be sure that any rise would show"
    elif before.untrained or after.untrained:
        state, said = State.INCONCLUSIVE, f"{said}: {UNTRAINED}"
    elif changed:
        state, said = State.INCONCLUSIVE, f"{said}: no rise, but the plan changed"
    else:
        least = increase_test.noticed(before, after, first, held.min_delta)
        state = (
            State.PASS if least is not None or increase_test.full(before) else State.INCONCLUSIVE
        )
        reach = "" if least is None else f"; a rise to {least:.4g} would have shown"
        few = "" if state is State.PASS else "; too few to be sure that a rise would show"
        said = f"no rise shown: {said} ({found}){reach}{few}"
    return Check("regression", pair.label, before.name, state, said)


def _shown(metric: Metric) -> str:
    if metric.counted:
        return f"{metric.k} of {metric.n}"
    return f"{metric.strength.value:.4g}"
