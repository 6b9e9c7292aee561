"""A measurement by one attack, and the finding that it becomes once it is judged."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from audit.core.terms import Leaked, OnClaim
from audit.results.numbers import (
    Bounds,
    Coins,
    Confidence,
    Count,
    Lower,
    Number,
    OneSided,
    Point,
    Probability,
    Upper,
    UpperProbability,
    check_least,
    check_measured,
    check_outcomes,
    check_withheld,
    refuse,
    when_read,
)
from audit.results.part import Strict, words_of
from audit.results.silence import Silence
from audit.statistics.interval import Interval, IntervalKind


class Control(Strict):
    """The same measurement on the twins: secrets drawn the same way and never trained on."""

    value: Number
    ci: Bounds | None
    k: Count | None = None
    n: Count
    confidence: Confidence = 0.95

    @classmethod
    def of(cls, seen: Interval, k: int | None = None) -> Self | None:
        """Make a control of an interval; None where nothing was measured."""
        if seen.value is None:
            return None
        return cls(value=seen.value, ci=seen.ci, k=k, n=seen.n, confidence=seen.confidence)

    _sound = when_read(lambda c: check_measured(c.value, c.ci, c.k, c.n))


class EpsilonLower(Strict):
    """An empirical lower bound on ε (nats) for the planted user with all copies.

    Evidence by method. one_run: m coins; `guesses` holds (r, v) of each rule fixed beforehand, r
    guesses of which v were right, each rule's among the next one's; the bound is that of all rules
    together. rank: the rank (ties against the secret, lower median) of n secrets among `space`
    candidates.
    """

    value: Lower
    method: Literal["one_run", "rank"]
    hypothesis: str
    unit: str
    relation: str
    delta: UpperProbability
    confidence: OneSided = 0.95
    m: Coins | None = None
    guesses: list[tuple[Count, Count]] | None = None
    rank: Upper | None = None
    space: Lower | None = None
    n: Count | None = None

    _evident = when_read(lambda bound: _check_evidence(bound))


def _check_evidence(bound: EpsilonLower) -> None:
    """Raise ValueError if the evidence is incomplete, impossible or of another method."""
    coins, ranks = (bound.m, bound.guesses), (bound.n, bound.rank, bound.space)
    own, others = (coins, ranks) if bound.method == "one_run" else (ranks, coins)
    wrong = None in own or any(one is not None for one in others)
    if bound.method == "one_run":
        wrong = wrong or not bound.guesses
        wrong = wrong or not _nested(bound.m or 0, bound.guesses or [])
    else:
        wrong = wrong or not bound.n or math.inf in ranks
        wrong = wrong or not 1 <= (bound.rank or 0.0) <= (bound.space or 0.0)
    refuse(wrong, f"no bound by {bound.method} has such evidence")


def _nested(m: int, guesses: list[tuple[int, int]]) -> bool:
    """Return whether each rule's guesses can be among the next one's, and the last among m."""
    steps = [(0, 0), *guesses, (m, max((v for _, v in guesses), default=0))]
    return all(0 <= w - v <= s - r for (r, v), (s, w) in pairwise(steps))


class ClaimTest(Strict):
    """A test of the claim itself, on the trade-off curve of the mechanism that is claimed.

    mechanism: what is claimed, in words. m coins, r guesses by a rule fixed beforehand, v of them
    right; `critical` right ones would refute it by this test alone, null where none would.
    p_value: of the claim; least_p: the smallest possible. noise_at_most: if the mechanism is of
    the claimed family, its noise multiplier is at most this (95 %, unadjusted), "inf" for no limit.
    """

    mechanism: str
    m: Coins
    r: Count
    v: Count
    p_value: Probability
    least_p: Probability
    critical: Count | None
    noise_at_most: Upper | None = None

    _sound = when_read(
        lambda t: refuse(not t.v <= t.r <= t.m, f"{t.v} of {t.r} guesses over {t.m} coins")
    )
    _possible = when_read(lambda t: check_least(t.p_value, t.least_p))


class ChargeTest(Strict):
    """A test of a service's ledger: what its queries reveal about a unit, beside their charges.

    queries: how many were compared; 0 where there is no ledger, neighbour or answer. exceeded: how
    many of them reveal more than they were charged, computed exactly; null where tokens were drawn
    instead. p_value: then, of "every charge is large enough". It does not look for a planted
    secret, so it answers the claim alone.
    """

    queries: Count
    exceeded: Count | None = None
    p_value: Probability | None = None

    _sound = when_read(
        lambda t: refuse(
            (t.exceeded is not None) + (t.p_value is not None) != (t.queries > 0),
            "queries are compared or bet on: one, and none where there are no queries",
        )
    )
    _counted = when_read(
        lambda t: refuse(
            (t.exceeded or 0) > t.queries, f"{t.exceeded} of {t.queries} queries exceed a charge"
        )
    )


class Exhibit(Strict):
    """Copies of text of users whom no coin decides. It has no p-value.

    nats: the least log-probability under the base of a run that stands with one user alone, plus
    the log of `tried`; null: no such run, or no base. unwritten: of how many users it is below −40.
    shared: of how many users words came up that stand with several. tried: prompts × samples ×
    places at which a run could have begun.
    """

    nats: Number | None
    unwritten: Count
    shared: Count
    tried: Count


class Power(Strict):
    """Power of this number of trials to show a leak, or to refute a claim.

    smallest_rate: the one-sided upper limit on the rate if there is no hit.
    detectable_rate: the rate, spread over the planted secrets, that is called a leak with
    probability `needed`. largest_epsilon: the largest claim of ε (nats) that would be refuted if
    every guess were right, adjusted for all tests of the claim. found: the probability that a leak
    would have been found if people leaked wholly with probability `effect`, the others not at all.
    needed: what it must be before finding none means something; null: 0.8.
    """

    smallest_rate: Number | None = None
    detectable_rate: Number | None = None
    largest_epsilon: Number | None = None
    effect: Probability | None = None
    found: Probability | None = None
    needed: Probability | None = None
    n: Count = 0
    confidence: Confidence = 0.95


class Exposures(Strict):
    """Exposure in bits of every secret of one finding, each side sorted, for the histogram.

    null: mean exposure in bits without training.
    """

    planted: list[Number]
    twins: list[Number]
    null: Number


class Example(Strict):
    """One generation without its text: its number from 0, the prompt, and what it was.

    prompt: the drawn words before the planted values, which hold nothing of the corpus.
    planted: whether it was exactly a value that was trained on.
    """

    generation: Count
    prompt: str
    planted: bool


def measured(seen: Interval) -> dict[str, Any]:
    """List the fields of a measurement that an interval gives."""
    same = {name: getattr(seen, name) for name in ("value", "ci", "n", "confidence", "method")}
    return {**same, "kind": seen.kind, "sizes": seen.sizes}


class Measurement(Strict):
    """A measurement by one attack on one release, before any answer.

    A baseline stores some of the fields only.
    """

    attack: str
    metric: str
    access: str = Field(default="", description="the least access that it takes")
    unit: str
    value: Number | None
    ci: Bounds | None
    confidence: Confidence
    method: str = Field(default="", description="how the interval was computed, in words")
    kind: Annotated[IntervalKind, words_of(IntervalKind)] = Field(
        description="how the interval was computed"
    )
    sizes: tuple[Count, ...] = Field(
        default=(),
        description="of the samples behind the interval where these are several, as of members and "
        "of controls; n counts all of them",
    )
    k: Count | None = None
    n: Count
    withheld: Count = Field(
        default=0, description="trials that a server withheld, so that each may have been a hit"
    )
    chance: Number | None = None
    control: Control | None = None
    blind: Control | None = Field(
        default=None,
        description="the same measure for a classifier that reads the candidates and no model",
    )
    p_value: Probability | None = Field(
        default=None, description="of the hypothesis that nothing leaked; unadjusted; null: no test"
    )
    adjusted_p: Probability | None = Field(
        default=None,
        description="of its test, adjusted for all tests of the release; null: no test",
    )
    guesses_p: Probability | None = Field(
        default=None,
        description="of its guesses of who was trained on, as a leak, adjusted as adjusted_p is; "
        "null: they test no claim",
    )
    look_p: Probability | None = Field(
        default=None,
        description="the smaller of both, adjusted for the tests of this look alone; null: it is "
        "the only look",
    )
    least_p: Probability = Field(
        default=0.0, description="smallest p-value that so many tries can have"
    )
    sides: Literal[1, 2] = Field(
        default=1, description="sides of the test: 2 where both signs would be a leak"
    )
    test: str = Field(
        default="",
        description="the test behind the p-value; measures that share a test share its p-value",
    )
    untested: str = Field(default="", description="why no test could show a leak")
    epsilon_lower: EpsilonLower | None = None
    claim_test: ClaimTest | None = None
    charge_test: ChargeTest | None = None
    exhibit: Exhibit | None = Field(
        default=None, description="of copies that no coin decides: how likely the base writes them"
    )
    power: Power = Power()
    stronger_than_release: bool = Field(
        default=False, description="whether it takes more access than the release gives"
    )
    space: Number | None = Field(
        default=None, description="of an exposure, the number of candidates of each secret"
    )
    roc: tuple[Point, ...] | None = Field(
        default=None, description="(false positive rate, true positive rate), strictest first"
    )
    exposures: Exposures | None = None
    outcomes: str | None = Field(
        default=None,
        pattern="^[-01]*$",
        description="per planted secret, in the order of planting: 1 leaked, 0 not, - unknown",
    )
    kinds: tuple[str, ...] = Field(default=(), description="kinds of the secrets that it is about")
    untrained: str = Field(
        default="", description="which planted secrets may not have been trained on"
    )
    fair_coins: Literal[True] = Field(
        default=True, description="fair coins chose what was planted, as all tests suppose"
    )
    cut: bool | None = Field(
        default=None,
        description="of a rate whose session its answers can end, so that n depends on them: "
        "whether it may have ended within a try; null: its answers cannot end it",
    )
    examples: tuple[Example, ...] = Field(
        default=(),
        description="the first generations of five values that leaked, and the first of none",
    )
    observation: str = Field(default="", description="what was measured, as a sentence")

    _sound = when_read(lambda m: check_measured(m.value, m.ci, m.k, m.n))
    _known = when_read(lambda m: check_withheld(m.withheld, m.ci, m.k, m.n))
    _counted = when_read(lambda m: check_outcomes(m.outcomes, m.k, m.n))

    @property
    def name(self) -> str:
        """`extraction.hit_rate`."""
        return f"{self.attack}.{self.metric}"

    @property
    def interval(self) -> Interval:
        """The value with its interval."""
        low, high = self.ci if self.ci is not None else (None, None)
        return Interval(
            self.value, low, high, self.n, self.confidence, self.method, self.kind, self.sizes
        )


class FindingResult(Measurement):
    """A measurement with both answers: what leaked, and whether this refutes the claim."""

    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="what leaked")
    sentence: str = Field(description="what was measured, and what leaked")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(
        description="what the finding says about the claim"
    )
    claim_sentence: str = Field(description="the same in words, with the reason")
    silence: Silence | None = Field(
        default=None, description='the conditions of "no leak found"; null: not examined'
    )

    @property
    def removed(self) -> bool:
        """Return whether it was not measured because its secrets were removed before training."""
        contact = None if self.silence is None else self.silence.contact
        return self.leaked == Leaked.NOT_MEASURED and contact is not None and contact.removed

    _whole = when_read(lambda finding: _check_whole(finding))


_ALWAYS = {
    "access",
    "method",
    "k",
    "chance",
    "control",
    "p_value",
    "least_p",
    "epsilon_lower",
    "power",
}


def _check_whole(finding: FindingResult) -> None:
    """Raise ValueError if a field is missing which a baseline may leave out, but not a run."""
    missing = _ALWAYS - finding.model_fields_set
    refuse(bool(missing), f"has no {', '.join(sorted(missing))}")
