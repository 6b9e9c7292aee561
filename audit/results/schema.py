"""results.json, schema version 1: the only thing reports and gates ever see.

What its numbers can be, and how they are rounded, is in `audit.quantities`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.results.numbers import (
    FROM_FILE,
    Bounds,
    Confidence,
    Count,
    Nonnegative,
    Number,
    Point,
    Table,
    Upper,
    check_measured,
    check_once,
    check_outcomes,
    refuse,
    when_read,
)

SCHEMA_VERSION = "1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GuaranteeResult(_Strict):
    """What is claimed. ε in nats, "inf" for no guarantee, null for unknown."""

    epsilon: Upper | None
    delta: Upper | None
    alpha: Nonnegative | None
    unit: str
    relation: str
    release: str
    basis: str
    theorem: str
    conditions: list[str]
    published_epsilon: Number | None
    accounting: Table | None = Field(
        default=None, description="what ε was worked out from: terms, relation and δ"
    )
    population: int | None = Field(
        default=None, description="public number of units the mechanism was fixed for"
    )
    teachers_per_user: dict[int, int] | None = Field(
        default=None, description="how many users 1, 2, … teachers hear; private, for the auditor"
    )
    also: list[str] = Field(
        default=[], description="other relations under which ε holds for the unit just the same"
    )
    phrases: list[Table] = Field(
        default=[],
        description="ε over a list of phrases, per relation: n, mean, minimum, maximum, below_mean",
    )

    @property
    def claim(self) -> Guarantee:
        """The claim as the noun that knows what it can be compared with."""
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

    _sound = when_read(lambda m: check_measured(m.value, m.ci, None, m.n))


class Control(_Strict):
    """The same measurement on the twins: secrets drawn alike and never trained on."""

    value: Number
    ci: Bounds | None
    k: Count | None = None
    n: Count
    confidence: Confidence = 0.95

    _sound = when_read(lambda c: check_measured(c.value, c.ci, c.k, c.n))


class EpsilonLower(_Strict):
    """An empirical lower bound on ε (nats) for the planted user with all copies.

    Its evidence, by method: one_run has m coins, r guesses and v right ones; rank has the rank
    (ties against the secret, lower median) of n secrets among `space` candidates.
    """

    value: Nonnegative
    method: Literal["one_run", "rank"]
    hypothesis: str
    unit: str
    relation: str
    delta: Nonnegative
    confidence: Confidence = 0.95
    m: Count | None = None
    r: Count | None = None
    v: Count | None = None
    rank: Number | None = None
    space: Number | None = None
    n: Count | None = None

    _evident = when_read(lambda bound: _check_evidence(bound))


def _check_evidence(bound: EpsilonLower) -> None:
    """Raises ValueError where evidence is there in part, is another method's, or cannot be."""
    coins, ranks = (bound.v, bound.r, bound.m), (1 if bound.n else None, bound.rank, bound.space)
    own, other = (coins, ranks) if bound.method == "one_run" else (ranks, coins)
    known = [number for number in own if number is not None]
    partial = 0 < len(known) < len(own) or any(number is not None for number in other)
    refuse(partial or known != sorted(known), f"no bound by {bound.method} has such evidence")


class Power(_Strict):
    """What so many trials could have shown.

    smallest_rate: the upper limit on the rate if nothing at all is seen (one-sided).
    detectable_rate: the rate, spread over the planted secrets, that would have been called a leak
    with this confidence. largest_epsilon: the bound (nats) if every guess were right.
    """

    smallest_rate: Number | None
    detectable_rate: Number | None = None
    largest_epsilon: Number | None
    n: Count
    confidence: Confidence = 0.95


class Exposures(_Strict):
    """Exposure in bits of every secret of one finding, each side sorted; for the histogram.

    space: candidates of each secret. null: mean exposure of a secret never seen, in bits.
    """

    planted: list[Number]
    twins: list[Number]
    space: Number
    null: Number


class FindingResult(_Strict):
    """One measurement by one attack, with its interval, its control and its verdict."""

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
    p_value: Number | None = Field(
        default=None, description="of the hypothesis that nothing leaked; unadjusted"
    )
    sides: Literal[1, 2] = Field(default=1, description="sides of the test behind the p-value")
    test: str = Field(default="", description="the test behind it; measures that share it share p")
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
        description="of each planted secret, in the order of planting: 1 leaked, 0 not, - unknown",
    )
    untrained: str = Field(
        default="", description="what of the planted secrets is not known to be trained on"
    )
    verdict: Literal[
        "refuted", "consistent", "silent", "not comparable", "not measured", "inconclusive"
    ]
    sentence: str

    _sound = when_read(lambda f: check_measured(f.value, f.ci, f.k, f.n))
    _counted = when_read(lambda f: check_outcomes(f.outcomes, f.k, f.n))


class SessionResult(_Strict):
    """One session with a release: its queries, and what its ledger spent per part (nats)."""

    purpose: str
    queries: int
    answered: int
    budget: int | None = Field(description="queries the session allows; null: unlimited")
    remaining: int | None
    stopped_at: int | None
    epsilon_spent: list[Number] = Field(description="per part, in nats, at most the claimed ε")
    epsilon_local: list[Number] = Field(
        default=[],
        description="per part, in nats: what the same queries cost on this data set, where "
        "epsilon_spent is a worst case; private, for the auditor",
    )
    spent_curve: list[tuple[int, Number]] = Field(
        default=[], description="(queries so far, largest ε spent by any part)"
    )


class Cost(_Strict):
    """What a release cost. Only here and in `environment` may two runs of a plan differ."""

    train_tokens: int
    queries: int
    seconds: Number


class ReleaseResult(_Strict):
    """One defended model or service: its promise, its use and what attacks found."""

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
    tests: Count = Field(
        default=0, description="tests its verdicts are adjusted for (Holm); 0: those with a p-value"
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


class SeedResult(_Strict):
    """One seed of a sweep: its plan, and whom its coins planted."""

    seed: int
    plan_hash: str
    planted_users: int
    trained_users: int
    twins: int
    private_token_share: Number | None = None


class Cell(_Strict):
    """One setting of a sweep over its seeds: a defense, its parameters, its ε (nats).

    releases: its places in `releases`, one a seed; the promise stands there. utility: means over
    seeds, n the number of seeds. findings: counts are pooled over the trained models, all else is
    averaged over seeds; a bound on ε is the lower median of the seeds', a p-value Fisher's of
    theirs, and a verdict is of that p-value, adjusted for the tests of one release.
    """

    releases: list[int]
    utility: dict[str, Measure]
    findings: list[FindingResult]


class SweepResult(_Strict):
    """What several seeds and settings of one plan say together."""

    seeds: list[SeedResult]
    cells: list[Cell]


class Results(_Strict):
    """A whole run, or a sweep: every release of every seed."""

    schema_version: Literal["1"] = "1"
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


def _name(release: ReleaseResult) -> tuple[str, ...]:
    values = json.dumps(release.parameters, sort_keys=True)
    return release.defense, values, f"seed {release.seed}"


def _check_attacks(attacks: Any) -> None:
    named = isinstance(attacks, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in attacks
    )
    refuse(not named, "plan.attacks must be a list of tables, each with a name")


def to_json(results: Results) -> str:
    """The text of results.json: sorted by contract order, one trailing newline, no NaN."""
    absent = {"sweep"} if results.sweep is None else None
    document = results.model_dump(mode="json", exclude=absent)
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# From each older version to the next one, as documents. "1" is the first there is: whatever it has
# gained since then is optional.
_NEXT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def migrated(document: dict[str, Any]) -> dict[str, Any]:
    """A document of any version that there was, as one of this version; others as they are."""
    while (step := _NEXT.get(str(document.get("schema_version")))) is not None:
        document = step(document)
    return document


def told(error: ValidationError) -> str:
    """The first thing that a document is refused for, by its place, on one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return ": ".join(filter(None, (where, first["msg"].removeprefix("Value error, "))))


def load(path: Path) -> Results:
    """Reads results.json, of this version or an older one.

    Raises UsageError if it is missing, broken or of a version that is not known.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no results here; `audit run` writes them") from None
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None
    document = migrated(document) if isinstance(document, dict) else {}
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path}: schema version {version!r}; this audit reads {SCHEMA_VERSION!r}")
    try:
        return Results.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        raise UsageError(f"{path}: {told(error)}") from None


def schema() -> dict[str, Any]:
    """The JSON Schema of results.json."""
    return Results.model_json_schema(mode="serialization")
