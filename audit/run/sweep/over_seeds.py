"""Combines the seeds of a sweep, one cell of the grid at a time.

The unit of an interval is the seed: other coins, other trainings, the same held-out text. Only
counts of independent trials are pooled, and their interval is about the models that were trained.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from audit.findings import charges_over_seeds as charges
from audit.findings import exhibits, shows
from audit.findings.agreement import Agreement, agreements, leaked_by_setting
from audit.findings.rejections import test_of
from audit.findings.verdict import claim_overall
from audit.results.measurement import Measurement, measured
from audit.results.numbers import Bounds
from audit.results.schema import (
    Cell,
    ChargeTest,
    Control,
    EpsilonLower,
    FindingResult,
    Measure,
    Power,
    ReleaseResult,
)
from audit.results.words import count
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval, IntervalKind, no_interval
from audit.statistics.power import smallest_rate
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.t_interval import COVERAGE, t_interval
from audit.statistics.withheld_rate import withheld_rate


def cells(releases: Sequence[ReleaseResult], one_toss: bool = False) -> list[Cell]:
    """Group releases by defense and parameters, in the order of the first seed.

    one_toss: whether the seeds share the coins of one manifest.
    """
    places: dict[str, list[int]] = {}
    for place, release in enumerate(releases):
        alike = json.dumps([release.defense, release.parameters, release.reference], default=str)
        places.setdefault(alike, []).append(place)
    several = [[releases[i] for i in indices] for indices in places.values()]
    joint = agreements(several, one_toss)
    return [_cell(*one) for one in zip(places.values(), several, joint, strict=True)]


def _cell(places: list[int], releases: Sequence[ReleaseResult], together: Agreement) -> Cell:
    measures: dict[str, list[Measure]] = {}
    by_measure: dict[tuple[str, str, str], list[FindingResult]] = {}
    for release in releases:
        for name, measure in release.utility.items():
            measures.setdefault(name, []).append(measure)
        for f in release.findings:
            by_measure.setdefault((f.attack, f.metric, f.unit), []).append(f)
    utility = {name: mean_measure(measured) for name, measured in measures.items()}
    findings = [joined(several, together) for several in by_measure.values()]
    return Cell(
        releases=places,
        utility=utility,
        findings=findings,
        adjusted_p=together.adjusted_p,
        silence=shows.silence_over(findings),
        leaked=leaked_by_setting(findings, releases),
        claim=claim_overall(findings, together.claim),
    )


def mean_measure(measures: Sequence[Measure]) -> Measure:
    """Compute the mean over n seeds with its t-interval; a single seed has no interval.

    A perplexity is averaged and bounded as a logarithm (nats a token), then exponentiated.
    """
    first = measures[0]
    values = [m.value for m in measures]
    logarithmic = first.unit.startswith("perplexity") and min(values) > 0
    mean = t_interval([math.log(v) for v in values] if logarithmic else values)
    answered = [m.answered for m in measures if m.answered is not None]
    exponent = _exp if logarithmic else float
    return first.changed(
        value=exponent(mean.value or 0.0),
        ci=None if mean.ci is None else _within([*map(exponent, mean.ci)], first.unit),
        n=mean.n,
        method=f"{_seeds(mean.n)}, t-interval{' of the logarithm' if logarithmic else ''} "
        f"({COVERAGE})"
        if mean.ci
        else f"{_seeds(mean.n)}, no interval over seeds",
        answered=min(answered, default=None),
        share=first.share if len({m.share for m in measures}) == 1 else None,
    )


def _exp(nats: float) -> float:
    """Compute e^nats, or the largest float where it overflows."""
    return math.exp(min(nats, 709.0))


def _within(bounds: Sequence[float], unit: str) -> Bounds:
    """Clip to the range of a unit: shares 0 to 1, BLEU 0 to 100; only bits may be negative."""
    word = unit.split(" ")[0]
    most = {"share": 1.0, "probability": 1.0, "AUC": 1.0}.get(word, math.inf)
    most = 100.0 if word.startswith("BLEU") else most
    least = -math.inf if unit == "bits" else 0.0
    return max(least, bounds[0]), min(most, bounds[1])


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"mean over {n} seeds"


def joined(per_seed: Sequence[FindingResult], together: Agreement) -> FindingResult:
    """Join one measure of one setting over its seeds.

    The finding of a setting with one seed stays as it is. One that a single seed of several has is
    answered with the others: measures that share its test are.
    """
    if together.seeds == 1:
        return per_seed[0]
    whole = _pooled(per_seed, together)
    leaked, sentence = together.leaked(whole, per_seed)
    claim, claim_sentence = together.on_claim(whole, per_seed)
    if whole.epsilon_lower is not None:
        claim_sentence += " The bound on ε is the lower median of the seeds'."
    silence = shows.joined(per_seed)
    answers = {"leaked": leaked, "sentence": sentence, "claim": claim, "silence": silence}
    return FindingResult(**{**dict(whole), **answers}, claim_sentence=claim_sentence)


# hits of independent trials of a fixed number
_OF_TRIALS = (IntervalKind.CLOPPER_PEARSON, IntervalKind.WITHHELD_RATE)
_OF_ALL = (
    "attack",
    "metric",
    "access",
    "unit",
    "least_p",
    "sides",
    "test",
    "untested",
    "space",
    "kinds",
)


def _pooled(per_seed: Sequence[FindingResult], together: Agreement) -> Measurement:
    """Join the values of the seeds."""
    known = [f for f in per_seed if f.value is not None]
    first = (known or list(per_seed))[0]
    charge_test = charges.pooled(per_seed, together.seeds)
    shown: dict[str, Any] = {
        **{name: getattr(first, name) for name in _OF_ALL},
        "p_value": together.p_values.get(test_of(first)),
        "charge_test": charge_test,
        "exhibit": exhibits.clearest(per_seed),
        "untrained": next((f.untrained for f in per_seed if f.untrained), ""),
        "stronger_than_release": any(f.stronger_than_release for f in per_seed),
    }
    if not known:
        seen = no_interval(first.n, first.confidence, first.method)
        return Measurement(**{**shown, **measured(seen)}, chance=first.chance, power=first.power)
    stopped = _may_stop(per_seed)
    value = _stopped(per_seed, together.seeds) if stopped else _value(known, charge_test)
    controls = [f.control for f in known]
    control = _of_stopped(per_seed, together.seeds) if stopped else _control(controls, first.unit)
    without = [None] * (together.seeds - len(per_seed))
    return Measurement(
        **{**shown, **measured(value)},
        k=_hits(known),
        withheld=sum(f.withheld for f in known),
        chance=_average([f.chance for f in known]),
        cut=any(f.cut for f in per_seed) if stopped else None,
        control=control,
        blind=_control([f.blind for f in known], first.unit),
        epsilon_lower=lower_median([*(f.epsilon_lower for f in per_seed), *without]),
        power=_power(known, value.n),
    )


def _value(measured: Sequence[FindingResult], charge_test: ChargeTest | None) -> Interval:
    if charge_test is not None:
        return charges.value(measured, charge_test)
    return _rate(measured) if _countable(measured) else _mean(measured)


def _countable(per_seed: Sequence[FindingResult]) -> bool:
    """Return whether these are hits of independent trials, which an exact interval may pool."""
    fixed = all(f.kind in _OF_TRIALS for f in per_seed)
    return fixed and all(f.k is not None and f.n for f in per_seed)


def _rate(per_seed: Sequence[FindingResult]) -> Interval:
    """Pool counts: a sum of coins of unlike chances varies no more than a binomial."""
    k, n, withheld = (
        sum(counts) for counts in zip(*((f.k or 0, f.n, f.withheld) for f in per_seed), strict=True)
    )
    pooled = withheld_rate(k, n, withheld)
    seeds = count(len(per_seed), "seed")
    method = f"counts of {seeds} pooled, {per_seed[0].method}; of these trained models"
    return replace(pooled, method=method)


def _may_stop(per_seed: Sequence[FindingResult]) -> bool:
    """Decide whether these are rates of sessions that their answers can end."""
    return all(f.cut is not None for f in per_seed)


def _stopped(per_seed: Sequence[FindingResult], seeds: int) -> Interval:
    """Average the shares of queries that were stopped. A seed without one has no try."""
    mean = stopped_rate(_series(per_seed, per_seed, seeds))
    without = seeds - sum(f.n > 0 for f in per_seed)
    but = f", {without} of them without a try" if without else ""
    method = f"mean over {count(seeds, 'seed')}{but}, {mean.method}; of these trained models"
    return replace(mean, method=method)


def _of_stopped(per_seed: Sequence[FindingResult], seeds: int) -> Control | None:
    """Average the controls of such rates: shares of the same tries."""
    return Control.of(stopped_rate(_series([f.control for f in per_seed], per_seed, seeds)))


def _series(
    rates: Sequence[FindingResult | Control | None], per_seed: Sequence[FindingResult], seeds: int
) -> list[Series]:
    """Return the tries of every seed. rates: one for each finding; None: no try."""
    pairs = zip(rates, per_seed, strict=True)
    known = [Series(r.k or 0 if r else 0, r.n if r else 0, bool(f.cut)) for r, f in pairs]
    return known + [Series(0, 0)] * (seeds - len(known))


def _hits(measured: Sequence[FindingResult]) -> int | None:
    """Sum the hits, where the value is their share of all tries."""
    alike = len({f.n for f in measured}) == 1 and _may_stop(measured)
    return sum(f.k or 0 for f in measured) if _countable(measured) or alike else None


def _mean(per_seed: Sequence[FindingResult]) -> Interval:
    mean = t_interval([f.value for f in per_seed if f.value is not None])
    if mean.ci is None:
        return no_interval(mean.n, mean.confidence, _seeds(mean.n), mean.value)
    low, high = _within(mean.ci, per_seed[0].unit)
    method = f"{_seeds(mean.n)}, t-interval ({COVERAGE})"
    return replace(mean, low=low, high=high, method=method)


def _control(controls: Sequence[Control | None], unit: str) -> Control | None:
    present = [c for c in controls if c is not None]
    if not present:
        return None
    if all(c.k is not None and c.n for c in present):
        k = sum(c.k or 0 for c in present)
        pooled = clopper_pearson(k, sum(c.n for c in present))
        return Control.of(pooled, k)
    mean = t_interval([c.value for c in present])
    bounds = None if mean.ci is None else _within(mean.ci, unit)
    return Control(value=mean.value or 0.0, ci=bounds, n=mean.n)


def lower_median(bounds: Sequence[EpsilonLower | None]) -> EpsilonLower | None:
    """Return the bound at the lower median over seeds; None if there is no such bound.

    A seed without a bound counts as 0. Bounds of different kinds give None.

    It is too high only if half of the seeds' bounds are, or the only one: seeds toss their own
    coins, so no more often than a single bound. That needs all seeds: those that could be
    measured may be those where something leaked.
    """
    known = [b for b in bounds if b is not None]
    if len({(b.method, b.hypothesis, b.unit, b.relation, b.delta) for b in known}) != 1:
        return None
    missing = len(bounds) - len(known)
    ranked = [*[None] * missing, *sorted(known, key=lambda bound: bound.value)]
    return ranked[(len(ranked) - 1) // 2]


def _power(per_seed: Sequence[FindingResult], n: int) -> Power:
    """Combine what every seed could have shown; the rate is that of the pooled trials."""
    rates = [f.power.detectable_rate for f in per_seed]
    largest = [f.power.largest_epsilon for f in per_seed if f.power.largest_epsilon is not None]
    known = [rate for rate in rates if rate is not None]
    return Power(
        needed=per_seed[0].power.needed,
        smallest_rate=_smallest_rate(per_seed),
        detectable_rate=max(known) if len(known) == len(rates) else None,
        largest_epsilon=min(largest, default=None),
        n=n,
    )


def _smallest_rate(per_seed: Sequence[FindingResult]) -> float | None:
    """Compute the upper limit on the rate, with 95 %, if no seed has a hit."""
    if _may_stop(per_seed):
        return stopped_rate([Series(0, f.n) for f in per_seed]).high
    return smallest_rate(sum(f.n for f in per_seed)) if _countable(per_seed) else None


def _average(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
