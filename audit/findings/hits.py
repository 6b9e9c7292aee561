"""Findings from a list of guesses, generated or searched: how many are planted secrets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.core.evidence import Hits
from audit.findings import bounds, mechanism, reach
from audit.findings.case import Case, of_kind, value
from audit.findings.guesses import guessed
from audit.results.joined import LEVEL
from audit.results.measurement import Control, Example, Measurement, Power
from audit.statistics import hits as hits_test
from audit.statistics import power
from audit.statistics.clopper_pearson import clopper_pearson, one_sided_upper
from audit.statistics.interval import Interval
from audit.statistics.tossed import Tossed
from audit.statistics.withheld_rate import withheld_rate

SHOWN = 5  # generations of planted values that a finding names


def measurements(hits: Hits, case: Case) -> list[Measurement]:
    """Compute the share of tries that were planted secrets, and of secrets that came up."""
    rate = _rate(hits, case)
    return [rate, _recall(hits, case, rate)]


def _rate(hits: Hits, case: Case) -> Measurement:
    n, often = len(hits.found), _often(hits, case)
    named = _named(hits, case)
    k, k_twins = (
        sum(v in those for v in named) for those in (case.planted_values, case.twin_values)
    )
    p, least = None, 1.0
    if case.chance is not None and n:
        count = int(case.planted.sum())
        p = hits_test.p_value(k, hits.repeats, count, case.chance)
        least = hits_test.p_value(n, _spread(n, count), count, case.chance) if count else 1.0
    withheld = sum(hits.withheld)
    tries = "generations" if hits.sampled else "most likely values"
    planted = len(case.planted_values)
    return case.measurement(
        hits,
        of_kind(hits.kind, "hit_rate" if hits.sampled else "searched_rate"),
        case.rate(k, n, withheld),
        withheld=withheld,
        unit=f"share of {'' if hits.sampled else 'the '}{tries}",
        observation=f"{k} of {n} {tries} were planted secrets; {k_twins} were twins'"
        f"{withheld_words(withheld)}.",
        k=k,
        chance=None if case.chance is None else min(1.0, case.chance * planted),
        control=Control.of(case.rate(k_twins, n), k_twins),
        p_value=p,
        least_p=least,
        test=_test(hits, case),
        epsilon_lower=bounds.presence(often, case),
        claim_test=mechanism.presence(often, case),
        power=rate_power(n, case, hits.sampled, withheld),
        cut=case.cut and not hits.whole,
        examples=_examples(hits, case) if hits.sampled else (),
    )


def tests(hits: Hits, case: Case) -> dict[str, Tossed]:
    """Make the test of its guesses; that of the hits has values as its null, no coins."""
    return guessed(_test(hits, case), _often(hits, case), case)


def _test(hits: Hits, case: Case) -> str:
    return f"{case.attack} {of_kind(hits.kind, 'hits' if hits.sampled else 'search')}"


def _examples(hits: Hits, case: Case) -> tuple[Example, ...]:
    """Name the first generations of five different planted values, and the first of none."""
    drawn = next((s.prefix for s in case.secrets if s.space is not None), "")
    if not drawn:
        return ()
    planted = case.planted_values
    first: dict[object, Example] = {}  # by the planted value; None: of all that is none
    for place, index in enumerate(hits.found):
        secret = case.secrets[int(index)] if index >= 0 else None
        if secret is None or value(secret) not in planted:
            first.setdefault(None, Example(generation=place, prompt=drawn, planted=False))
        elif value(secret) not in first:
            prompt = drawn if secret.space is None else secret.prefix
            first[value(secret)] = Example(generation=place, prompt=prompt, planted=True)
    other = first.pop(None, None)
    return (*[*first.values()][:SHOWN], *([other] if other else []))


def _recall(hits: Hits, case: Case, rate: Measurement) -> Measurement:
    n, named = len(hits.found), set(_named(hits, case))
    k, k_twins = (len(those & named) for those in (case.planted_values, case.twin_values))
    planted = len(case.planted_values) if n else 0
    withheld = min(rate.withheld, planted - k)  # each may have been another secret
    twins = len(case.twin_values) if n else 0
    return case.measurement(
        hits,
        of_kind(hits.kind, "recall" if hits.sampled else "searched_recall"),
        _conservative(withheld_rate(k, planted, withheld)),
        withheld=withheld,
        unit="share of planted secrets",
        observation=f"{k} of {planted} planted secrets came up, and {k_twins} of {twins} twins"
        f"{withheld_words(rate.withheld)}.",
        k=k,
        chance=None if case.chance is None else min(1.0, len(hits.repeats) * case.chance),
        control=Control.of(clopper_pearson(k_twins, twins), k_twins),
        p_value=rate.p_value,
        least_p=rate.least_p,
        test=rate.test,
        power=Power(
            smallest_rate=power.smallest_rate(planted) if n else None,
            effect=rate.power.effect,
            needed=rate.power.needed,
            found=rate.power.found,
            n=planted,
        ),
        outcomes=case.outcomes(_came_up(named, case)) if n else None,
    )


def _came_up(named: set[tuple[str, str, str]], case: Case) -> np.ndarray:
    return np.array([float(value(secret) in named) for secret in case.secrets])


def _spread(n: int, values: int) -> list[int]:
    """Compute each value's count where n tries are spread evenly over at most `values` values."""
    different = min(n, values)
    return [n // different + (i < n % different) for i in range(different)]


def _named(hits: Hits, case: Case) -> list[tuple[str, str, str]]:
    return [value(case.secrets[int(i)]) for i in hits.found if i >= 0]


def _often(hits: Hits, case: Case) -> dict[str, float]:
    """Count how often each owner's two values were tried; of nobody without tries."""
    often = {s.owner: 0.0 for s in case.secrets if len(hits.found)}
    for i in hits.found:
        if i >= 0:
            often[case.secrets[int(i)].owner] += 1
    return often


def withheld_words(withheld: int) -> str:
    """Append how many answers an observation lacks."""
    return f", and {withheld} answers were withheld or cut" if withheld else ""


def rate_power(n: int, case: Case, sampled: bool = True, withheld: int = 0) -> Power:
    """Compute what n tries could show: the smallest rate, and the largest ε (nats).

    sampled: whether they are generations, or else a list of the most likely values.
    """
    if not n:
        return Power()
    owners = len({s.owner for s in case.secrets})
    return Power(
        smallest_rate=case.smallest_rate(n, withheld),
        detectable_rate=_detectable(n, case),
        largest_epsilon=bounds.largest(owners, case.delta, n, case.claim_tests),
        n=n,
        **reach.of_hits(n, needed(n, case), sampled, case),
    )


def needed(n: int, case: Case) -> int | None:
    """Compute how many planted secrets must come up for a leak; None: n tries are too few."""
    if case.chance is None or not n:
        return None
    return hits_test.needed(n, int(case.planted.sum()), case.chance, LEVEL / case.tests)


def _detectable(n: int, case: Case) -> float | None:
    """Compute the hit rate, even over planted secrets, that is called a leak as often as reach
    needs.

    Each secret comes up with probability 1 − (1 − rate/planted)^n; repeats add nothing here. Which
    secrets come up is negatively associated, so their number varies no more than a binomial.
    """
    need, planted = needed(n, case), int(case.planted.sum())
    if need is None:
        return None
    each = one_sided_upper(need - 1, planted, case.reach.power)
    return float(min(1.0, planted * -math.expm1(math.log1p(-each) / n)))


def _conservative(interval: Interval) -> Interval:
    """Label a binomial interval as too wide: which secrets come up is negatively associated."""
    method = f"{interval.method}, over secrets (conservative: finds are negatively associated)"
    return replace(interval, method=method)
