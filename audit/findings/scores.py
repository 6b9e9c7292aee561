"""Findings from membership scores: how well they separate members from non-members."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from audit.core.evidence import Scores, is_span
from audit.core.randomness import stream
from audit.core.secret import OWN, Secret
from audit.findings import bets, bounds, low_end, mechanism, reach, tops
from audit.findings.case import Case
from audit.findings.guesses import guessed
from audit.findings.likelihoods import compared, ranked
from audit.findings.rejections import Family
from audit.results.joined import LEVEL
from audit.results.measurement import Control, Measurement, Power
from audit.results.words import percent
from audit.statistics import binomial, blind, power, roc
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from audit.statistics.tossed import Tossed


def measurements(scores: Scores, case: Case) -> list[Measurement]:
    """Compute AUC, top and TPR at low FPR; for the loss also the Selective-DP protocols."""
    area = _auc(scores, case)
    made = [area, tops.measurement(scores, case), *low_end.measurements(scores, case, area)]
    if scores.score == "loss":
        made += _protocols(scores, case, area)
        if is_span(scores.target):
            made.append(_choice(scores, case))
    return made if case.lots == 1 else [*made, bets.measurement(scores, case)]


def tests(scores: Scores, case: Case) -> dict[str, Tossed]:
    """Make its tests, for any toss of the coins; the choice's null is the second coin."""
    test = _test(scores, case)
    return {
        test: ranked(scores.values, case),
        tops.test_of(scores, case): tops.test(scores, case),
        **low_end.tests(scores, case),
        **guessed(test, case.by_owner(scores.values), case),
    }


def family(scores: Scores, secrets: Sequence[Secret]) -> Family:
    """Count the AUC's test, the top's and the guesses', those of the low end, the second coin's."""
    choice = int(scores.score == "loss" and is_span(scores.target))
    tossed = 3 + len(low_end.LOW) * scores.named
    return Family(tossed + choice, 1 + choice, tossed, bets=1)


def _test(scores: Scores, case: Case) -> str:
    return f"{case.attack} {scores.target}_{scores.score}"


def _auc(scores: Scores, case: Case) -> Measurement:
    members, controls = case.sides(scores.values)
    interval = roc.auc(members, controls)
    owners = case.by_owner(scores.values)
    name = f"{scores.target}_{scores.score}"
    p_value, least = compared(scores.values, case)
    largest = bounds.largest(len(owners), case.delta, None, case.claim_tests)
    return case.measurement(
        scores,
        f"{name}_auc",
        interval,
        unit="AUC",
        observation=_observation(scores, interval, len(members), len(controls)),
        chance=0.5,
        blind=_blind(scores, case),
        p_value=p_value,
        least_p=least,
        sides=2,
        test=_test(scores, case),
        epsilon_lower=bounds.presence(owners, case),
        claim_test=mechanism.presence(owners, case),
        power=Power(largest_epsilon=largest, n=interval.n, **tops.reach_of(scores, case)),
        roc=roc.curve(members, controls) or None,
    )


def _observation(scores: Scores, interval: Interval, members: int, controls: int) -> str:
    if interval.value is None:
        return ""
    windows = f"; {scores.windowed} read in windows" if scores.windowed else ""
    return (
        f"AUC {interval.value:.3f} of {scores.score} over {members} members and {controls} "
        f"others{windows}."
    )


def _blind(scores: Scores, case: Case) -> Control | None:
    if scores.kind == OWN:  # real texts, of which a fair coin chose: nothing is confounded
        return None
    if case.blind is not None:
        return case.blind.get(f"{scores.target}_{scores.score}_auc")
    measured = ~np.isnan(scores.values) & case.single
    sides = [
        tuple(s.value for s, chosen in zip(case.secrets, mask & measured, strict=True) if chosen)
        for mask in (case.planted, case.twins)
    ]
    return Control.of(_blind_auc(*sides, case.seed))


@lru_cache(maxsize=64)
def _blind_auc(members: tuple[str, ...], controls: tuple[str, ...], seed: int) -> Interval:
    """Compute the blind baseline. It needs no model, so all releases and scores of a run share it.

    Where coins decide, candidates are confounded only by accident. A confidence of 99 % keeps sound
    runs from being called confounded.
    """
    generator = stream(seed, "findings", "blind")
    interval, _ = blind.blind_auc(members, controls, generator, confidence=0.99)
    return interval


def _protocols(scores: Scores, case: Case, area: Measurement) -> list[Measurement]:
    """Compute both protocols of Selective DP (arXiv 2108.12944): members are the half with the
    lowest perplexity, or the candidates beyond thresholds set on a disjoint half."""
    members, controls = case.sides(scores.values)
    generator = case.stream("protocol", scores.target)
    accuracies = {
        "accuracy": roc.top_half_accuracy(members, controls),
        "refined_accuracy": roc.refined_accuracy(members, controls, generator),
    }
    return [
        case.measurement(
            scores,
            area.metric.replace("auc", name),
            interval,
            unit="share of right calls",
            observation=""
            if interval.value is None
            else f"{percent(interval.value)} of the calls are right.",
            chance=area.chance,
            p_value=area.p_value,
            least_p=area.least_p,
            test=area.test,
            power=area.power.changed(largest_epsilon=None, n=interval.n),
        )
        for name, interval in accuracies.items()
    ]


def _choice(scores: Scores, case: Case) -> Measurement:
    """Compute how often scores identify the planted value of a present owner: the second coin."""
    by_owner: dict[str, dict[int, float]] = {}
    for secret, score in zip(case.secrets, scores.values, strict=True):
        if case.coins.present[secret.owner] and not np.isnan(score):
            by_owner.setdefault(secret.owner, {})[secret.slot] = float(score)
    pairs = {o: slots for o, slots in by_owner.items() if len(slots) == 2}
    lot = case.stream("choice", scores.score).random(len(pairs))
    won = {
        owner: slots[case.coins.slot[owner]] > slots[1 - case.coins.slot[owner]]
        or (slots[0] == slots[1] and chance < 0.5)
        for (owner, slots), chance in zip(pairs.items(), lot, strict=True)
    }
    right, n = sum(won.values()), len(pairs)
    owners = dict.fromkeys(s.owner for s in case.secrets if case.coins.present[s.owner])
    bound = bounds.which_value(right, n, case)
    return case.measurement(
        scores,
        f"{scores.target}_choice",
        clopper_pearson(right, n),
        unit="share of trained-on users",
        observation=f"For {right} of {n} users the planted value scores above the other one.",
        k=right,
        chance=0.5,
        p_value=min(1.0, 2 * binomial.p_value(max(right, n - right), n, 0.5)) if n else None,
        least_p=min(1.0, 2 * 0.5 ** sum(a != b for a, b in map(dict.values, pairs.values()))),
        sides=2,
        epsilon_lower=bound,
        claim_test=mechanism.which_value(right, n, case),
        power=Power(
            largest_epsilon=power.largest_epsilon(n, case.delta, 1 - LEVEL / case.claim_tests)
            if n
            else None,
            n=n,
            **reach.of_choice(n, case),
        ),
        outcomes="".join("-" if o not in won else f"{int(won[o])}" for o in owners) if n else None,
    )
