"""Findings from generations that name people: R_name (SeqPATE, NeurIPS 2022, appendix)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.core.evidence import Mentions
from audit.findings import bounds, mechanism, reach
from audit.findings.case import Case, value
from audit.findings.guesses import guessed
from audit.findings.hits import withheld_words
from audit.findings.successes import least, summed
from audit.results.measurement import Control, Measurement, Power
from audit.statistics.tossed import Tossed


def measurements(mentions: Mentions, case: Case) -> list[Measurement]:
    """Compute the shares of generations that name planted people, and that name anybody else."""
    return [_r_name(mentions, case), *_other_names(mentions, case)]


def _r_name(mentions: Mentions, case: Case) -> Measurement:
    n, withheld = len(mentions.named), sum(mentions.withheld)
    often, drawn = _often(mentions, case), _drawn(mentions, case)
    k = k_twins = 0
    for indices in mentions.named:
        values = {value(case.secrets[i]) for i in indices}
        k += bool(values & case.planted_values)
        k_twins += bool(values & case.twin_values)
    return case.measurement(
        mentions,
        "r_name",
        case.rate(k, n, withheld),
        withheld=withheld,
        unit="share of generations",
        observation=f"{k} of {n} generations name a planted user who was trained on, "
        f"{k_twins} a twin{withheld_words(withheld)}.",
        k=k,
        control=Control.of(case.rate(k_twins, n), k_twins),
        p_value=summed(drawn, case).p_value(case.heads) if drawn else None,
        least_p=least(drawn, case),
        sides=2,
        test=f"{case.attack} mentions",
        epsilon_lower=bounds.presence(often, case),
        claim_test=mechanism.presence(often, case),
        power=Power(
            smallest_rate=case.smallest_rate(n, withheld),
            largest_epsilon=bounds.largest(len(often), case.delta, n, case.claim_tests),
            n=n,
            **reach.of_mentions(n, drawn, case),
        ),
        cut=case.cut and not mentions.whole,
    )


def tests(mentions: Mentions, case: Case) -> dict[str, Tossed]:
    """Make its tests, for any toss of the coins."""
    test, often = f"{case.attack} mentions", _often(mentions, case)
    return {test: summed(_drawn(mentions, case), case), **guessed(test, often, case)}


def _often(mentions: Mentions, case: Case) -> dict[str, float]:
    """Count how many generations name each owner; of nobody without generations."""
    often = {s.owner: 0.0 for s in case.secrets if mentions.named}
    for indices in mentions.named:
        for owner in {case.secrets[i].owner for i in indices}:
            often[owner] += 1
    return often


def _drawn(mentions: Mentions, case: Case) -> dict[str, float]:
    """Count how many generations name each owner by the name that the second coin chose."""
    drawn = {(s.owner, value(s)) for s, one in zip(case.secrets, case.drawn, strict=True) if one}
    chosen = [
        tuple(i for i in indices if (case.secrets[i].owner, value(case.secrets[i])) in drawn)
        for indices in mentions.named
    ]
    return _often(replace(mentions, named=tuple(chosen)), case)


def _other_names(mentions: Mentions, case: Case) -> list[Measurement]:
    """Count names without a test: no coin decides whether these people were trained on."""
    seen = mentions.others[~np.isnan(mentions.others)]
    n, k = len(seen), int(seen.sum())
    if not n:
        return []
    return [
        case.measurement(
            mentions,
            "other_names",
            case.rate(k, n),
            unit="share of generations",
            observation=f"{k} of {n} generations name a person whom no coin decides.",
            k=k,
            untested="No coin decides whether they were trained on, so nothing can be tested.",
            test=f"{case.attack} others",
            power=Power(smallest_rate=case.smallest_rate(n), n=n),
            cut=case.cut and not mentions.whole,
        )
    ]
