"""results.json, schema version 3: all that reports and gates read.

The types of its numbers and their rounding are in `audit.results.numbers`.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim, Shown
from audit.results.numbers import (
    Bounds,
    Coins,
    Confidence,
    Count,
    Nonnegative,
    Number,
    OneSided,
    Point,
    Probability,
    Table,
    Tests,
    Upper,
    UpperProbability,
    check_charges,
    check_counts,
    check_least,
    check_measured,
    check_once,
    check_outcomes,
    refuse,
    when_read,
)

SCHEMA_VERSION = "3"


def words_of(words: type[StrEnum]) -> WithJsonSchema:
    """The JSON Schema of a fixed list of words, in place."""
    return WithJsonSchema({"enum": [*map(str, words)], "type": "string"})


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GuaranteeResult(_Strict):
    """What is claimed. ε in nats, "inf" for no guarantee, null for unknown."""

    epsilon: Upper | None
    delta: UpperProbability | None
    alpha: Nonnegative | None
    unit: str
    relation: str
    release: str
    basis: str
    theorem: str
    conditions: list[str]
    published_epsilon: Number | None
    accounting: Table | None = Field(
        default=None, description="what ε was computed from: terms, relation and δ"
    )
    population: int | None = Field(
        default=None, description="public number of units that the mechanism was calibrated for"
    )
    teachers_per_user: dict[int, int] | None = Field(
        default=None,
        description="number of users seen by 1, 2, … teachers; private, for the auditor",
    )
    also: list[str] = Field(
        default=[], description="further relations under which ε holds for the unit"
    )
    phrases: list[Table] = Field(
        default=[],
        description="ε over a list of phrases, per relation: n, mean, minimum, maximum, below_mean",
    )

    @property
    def claim(self) -> Guarantee:
        """The claim as a Guarantee, which knows what it can be compared with."""
        names = ("epsilon", "unit", "relation", "release", "basis", "theorem", "delta", "alpha")
        return Guarantee(**{n: getattr(self, n) for n in names}, also=tuple(self.also))


class Measure(_Strict):
    """A measured value with its interval, the number of units behind it, and its method."""

    value: Number
    ci: Bounds | None
    n: Count
    confidence: Confidence = 0.95
    method: str
    unit: str
    answered: int | None = Field(
        default=None, description="tokens answered by the release before STOP; null: all"
    )
    bound: Literal["lower"] | None = Field(
        default=None, description="lower: the value measured is a lower bound on the quantity"
    )
    share: Probability | None = Field(
        default=None,
        description="share of the training done where it was measured: the best step on held-out "
        "text; null: all of it",
    )

    _sound = when_read(lambda m: check_measured(m.value, m.ci, None, m.n))


class Control(_Strict):
    """The same measurement on the twins: secrets drawn the same way and never trained on."""

    value: Number
    ci: Bounds | None
    k: Count | None = None
    n: Count
    confidence: Confidence = 0.95

    _sound = when_read(lambda c: check_measured(c.value, c.ci, c.k, c.n))


class EpsilonLower(_Strict):
    """An empirical lower bound on ε (nats) for the planted user with all copies.

    Evidence by method. one_run: m coins; `guesses` holds (r, v) of each test fixed beforehand, r
    guesses of which v were right; the bound is the largest of theirs, each at its share of the
    error. rank: the rank (ties against the secret, lower median) of n secrets among `space`
    candidates.
    """

    value: Nonnegative
    method: Literal["one_run", "rank"]
    hypothesis: str
    unit: str
    relation: str
    delta: Probability
    confidence: OneSided = 0.95
    m: Coins | None = None
    guesses: list[tuple[Count, Count]] | None = None
    rank: Number | None = None
    space: Number | None = None
    n: Count | None = None

    _evident = when_read(lambda bound: _check_evidence(bound))


def _check_evidence(bound: EpsilonLower) -> None:
    """Raises ValueError if the evidence is incomplete, impossible or of another method."""
    m, guesses = bound.m, bound.guesses
    ranks = (1 if bound.n else None, bound.rank, bound.space)
    known = [number for number in ranks if number is not None]
    if bound.method == "one_run":
        wrong = (m is None) != (guesses is None) or bool(known)
        wrong = wrong or guesses == []
        wrong = wrong or any(not v <= r <= (m or 0) for r, v in guesses or [])
    else:
        wrong = m is not None or guesses is not None
        wrong = wrong or 0 < len(known) < len(ranks) or known != sorted(known)
        wrong = wrong or math.inf in known
    refuse(wrong, f"no bound by {bound.method} has such evidence")


class ClaimTest(_Strict):
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
    noise_at_most: Number | None = None

    _sound = when_read(
        lambda t: refuse(not t.v <= t.r <= t.m, f"{t.v} of {t.r} guesses over {t.m} coins")
    )
    _possible = when_read(lambda t: check_least(t.p_value, t.least_p))


class ChargeTest(_Strict):
    """A test of a service's ledger: what its queries tell about a unit, beside their charges.

    queries: how many were compared; 0 where there is no ledger, neighbour or answer. exceeded: how
    many of them tell more than they were charged, computed exactly; null where tokens were drawn
    instead. p_value: then, of "every charge is large enough". It looks for no planted secret, so it
    answers the claim alone.
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


class Power(_Strict):
    """What this number of trials could have shown.

    smallest_rate: the one-sided upper limit on the rate if there is no hit.
    detectable_rate: the rate, spread over the planted secrets, that is called a leak with this
    confidence. largest_epsilon: the largest claim of ε (nats) that would be refuted if every guess
    were right, adjusted for all tests of the claim.
    """

    smallest_rate: Number | None
    detectable_rate: Number | None = None
    largest_epsilon: Number | None
    n: Count
    confidence: Confidence = 0.95


class Exposures(_Strict):
    """Exposure in bits of every secret of one finding, each side sorted, for the histogram.

    space: number of candidates of each secret. null: mean exposure in bits without training.
    """

    planted: list[Number]
    twins: list[Number]
    space: Number
    null: Number


class Example(_Strict):
    """One generation without its text: its number from 0, the prompt, and what it was.

    prompt: the drawn words before the planted values, which hold nothing of the corpus.
    planted: whether it was exactly a value that was trained on.
    """

    generation: Count
    prompt: str
    planted: bool


class Link(_Strict):
    """One condition of "no leak found", and the evidence for it."""

    state: Annotated[Shown, words_of(Shown)] = Field(description="whether it was shown")
    by: str = Field(description="what shows it, or the reason why it was not shown")
    n: Count = Field(description="number of observations behind it")


class Silence(_Strict):
    """The three conditions of "no leak found".

    contact: the planted secrets reached the measured weights. sight: the measure detects memorised
    text in this model. reach: a leak of the size that matters would have been called a leak.
    """

    contact: Link
    sight: Link
    reach: Link


class FindingResult(_Strict):
    """One measurement by one attack, with its interval, its control and both answers."""

    attack: str
    metric: str
    access: str
    unit: str
    value: Number | None
    ci: Bounds | None
    confidence: Confidence
    method: str
    k: Count | None
    n: Count
    chance: Number | None
    control: Control | None
    blind: Control | None = Field(
        default=None,
        description="the same measure for a classifier that reads the candidates and no model",
    )
    p_value: Probability | None = Field(
        default=None, description="of the hypothesis that nothing leaked; unadjusted"
    )
    sides: Literal[1, 2] = Field(default=1, description="sides of the test behind the p-value")
    test: str = Field(
        default="",
        description="the test behind the p-value; measures that share a test share its p-value",
    )
    epsilon_lower: EpsilonLower | None
    power: Power
    stronger_than_release: bool = False
    roc: list[Point] | None = Field(
        default=None, description="(false positive rate, true positive rate), strictest first"
    )
    exposures: Exposures | None = None
    outcomes: str | None = Field(
        default=None,
        pattern="^[-01]*$",
        description="per planted secret, in the order of planting: 1 leaked, 0 not, - unknown",
    )
    untrained: str = Field(
        default="", description="which planted secrets may not have been trained on"
    )
    least_p: Probability | None = Field(
        default=None, description="smallest p-value that so many tries can have; null: unknown"
    )
    untested: str = Field(default="", description="why no test could show a leak")
    fair_coins: bool = Field(
        default=True, description="whether fair coins chose what was planted, as tests suppose"
    )
    cut: bool | None = Field(
        default=None,
        description="of a rate whose session its answers can end, so that n depends on them: "
        "whether it may have ended within a try; null: its answers cannot end it",
    )
    claim_test: ClaimTest | None = None
    charge_test: ChargeTest | None = None
    examples: list[Example] = Field(
        default=[], description="the first generation that leaked, and the first that did not"
    )
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="what leaked")
    sentence: str = Field(description="what was measured, and what leaked")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(
        description="what the finding says about the claim"
    )
    claim_sentence: str = Field(description="the same in words, with the reason")
    silence: Silence | None = Field(
        default=None, description='the conditions of "no leak found"; null: not examined'
    )

    _sound = when_read(lambda f: check_measured(f.value, f.ci, f.k, f.n))
    _counted = when_read(lambda f: check_outcomes(f.outcomes, f.k, f.n))


class SessionResult(_Strict):
    """One session with a release: its queries, and the ε that its ledger spent per part (nats)."""

    purpose: str
    queries: int
    answered: int
    budget: int | None = Field(description="queries the session allows; null: unlimited")
    remaining: int | None
    stopped_at: int | None
    stop_part: int | None = Field(
        default=None,
        description="the part, from 1, whose ε that query would have used up; null: none would",
    )
    stop_charge: Number | None = Field(
        default=None, description="what that query would have cost the part, in nats"
    )
    epsilon_spent: list[Number] = Field(description="per part, in nats, at most the claimed ε")
    epsilon_local: list[Number] = Field(
        default=[],
        description="per part, in nats: the cost of the same queries on this data set, where "
        "epsilon_spent is a worst case; private, for the auditor",
    )
    silent: list[int] = Field(
        default=[],
        description="per part: the answered queries in which it was silent, since its own account "
        "did not hold their cost; private, as epsilon_spent then is; [] without such accounts",
    )
    spent_curve: list[tuple[int, Number]] = Field(
        default=[], description="(queries so far, largest ε spent by any part)"
    )

    _counted = when_read(lambda session: _check_session(session))


class Cost(_Strict):
    """The cost of a release. Two runs of a plan differ only here and in `environment`."""

    train_tokens: int
    queries: int
    seconds: Number

    _counted = when_read(lambda cost: check_counts(dict(cost)))


class ReleaseResult(_Strict):
    """One defended model or service: its claim, its utility and the findings of the attacks."""

    defense: str
    parameters: Table
    seed: int
    reference: bool
    role: str = Field(description="null control, positive control, or audited")
    guarantee: GuaranteeResult
    utility: dict[str, Measure]
    cost: Cost
    sessions: list[SessionResult]
    findings: list[FindingResult]
    tests: Tests = Field(
        default=0,
        description="tests that its leaks are adjusted for (Holm); 0: those with a p-value",
    )
    claim_tests: Tests = Field(
        default=0,
        description="tests of the claim that its refutation is adjusted for; 0: those with a bound",
    )
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="over all its findings")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="over all its findings")
    silence: Silence | None = Field(
        default=None, description='the conditions of "no leak found"; null: not examined'
    )

    _each_once = when_read(lambda r: check_once((f.attack, f.metric) for f in r.findings))


class CorpusResult(_Strict):
    """The audited corpus; `users` and `records` count every split."""

    name: str
    sha256: str
    records: int
    users: int
    near_duplicates: int
    planted_users: int = Field(description="users decided by a fair coin")
    trained_users: int
    twins: int
    private_token_share: Number | None = Field(
        default=None, description="share of the tokens trained on that the policy marks"
    )

    _counted = when_read(lambda corpus: check_counts(dict(corpus)))


class SeedResult(_Strict):
    """One seed of a sweep: its plan, and how many users its coins planted."""

    seed: int
    plan_hash: str
    planted_users: int
    trained_users: int
    twins: int
    private_token_share: Number | None = None

    _counted = when_read(lambda one: check_counts(dict(one)))


class Cell(_Strict):
    """One setting of a sweep over its seeds: a defense and its parameters.

    releases: indices into `releases`, one per seed; the claim is there. utility: means over seeds,
    n the number of seeds. findings: counts are pooled over the trained models, values averaged
    over seeds. A bound on ε (nats) is the lower median over seeds. A p-value combines theirs by
    Fisher's method, and what leaked follows from it, adjusted for the tests of one release.
    """

    releases: list[int]
    utility: dict[str, Measure]
    findings: list[FindingResult]
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="over all its measures")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="over all its measures")


class SweepResult(_Strict):
    """Several seeds and settings of one plan, combined."""

    seeds: list[SeedResult]
    cells: list[Cell]


class Results(_Strict):
    """A whole run, or a sweep: every release of every seed."""

    schema_version: Literal["3"] = "3"
    status: Literal["complete", "partial"]
    headline: str
    not_tested: list[str]
    warnings: list[str]
    reproduce: str
    plan: Table
    environment: Table
    corpus: CorpusResult
    releases: list[ReleaseResult]
    sweep: SweepResult | None = Field(
        default=None, description="only in the results of `audit sweep`; absent elsewhere"
    )

    _each_once = when_read(lambda r: check_once(map(_name, r.releases)))
    _attacks_named = when_read(lambda r: _check_attacks(r.plan.get("attacks", [])))
    _settings_there = when_read(lambda r: _check_settings(r.sweep, len(r.releases)))


def _name(release: ReleaseResult) -> tuple[str, ...]:
    values = json.dumps(release.parameters, sort_keys=True)
    return release.defense, values, f"seed {release.seed}"


def _check_attacks(attacks: Any) -> None:
    named = isinstance(attacks, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in attacks
    )
    refuse(not named, "plan.attacks must be a list of tables, each with a name")


def _check_session(session: SessionResult) -> None:
    check_counts(dict(session))
    for queries, _ in session.spent_curve:
        check_counts({"spent_curve": queries})
    check_charges("spent_curve", (spent for _, spent in session.spent_curve))
    for name in ("epsilon_spent", "epsilon_local"):
        check_charges(name, getattr(session, name))


def _check_settings(sweep: SweepResult | None, releases: int) -> None:
    for cell in () if sweep is None else sweep.cells:
        known = bool(cell.releases) and all(0 <= place < releases for place in cell.releases)
        refuse(not known, "a setting of the sweep names releases that are not there")


def to_json(results: Results) -> str:
    """Formats results.json: keys in the order of the schema, one trailing newline, no NaN."""
    absent = {"sweep"} if results.sweep is None else None
    document = results.model_dump(mode="json", exclude=absent)
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def first_error(error: ValidationError) -> str:
    """Formats the first error of a document, with its place, on one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ": ".join(filter(None, (where, first["msg"].removeprefix("Value error, "))))


def schema() -> dict[str, Any]:
    """The JSON Schema of results.json."""
    return Results.model_json_schema(mode="serialization")
